import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Milliseconds } from '../../domain/values.ts';
import { AddressRefused, checkHost, guardedLookup } from './address-policy.ts';

// One HTTP request of a download. fetch.ts retries and resumes.

/** Permanent failure: the URL, the server's response or its content is not acceptable, and a retry would fail too. */
export class DownloadRefused extends Error {
  override name = 'DownloadRefused';
}

/** Transient failure: the server answered 5xx, 408, 425 or 429. */
export class RetryLater extends Error {
  override name = 'RetryLater';
  /** From `Retry-After`; 0 without one. */
  readonly afterMs: Milliseconds;
  constructor(message: string, afterMs: Milliseconds) {
    super(message);
    this.afterMs = afterMs;
  }
}

/** The server answered 416: the next attempt starts from the first byte. */
export class RangeNotSatisfiable extends Error {
  override name = 'RangeNotSatisfiable';
}

export interface DownloadRequest {
  url: string;
  /** Number of bytes already received; greater than 0 only with the `etag` they were received under. */
  from: number;
  etag: string | null;
  trustedHosts: readonly string[];
  ca?: string | Buffer;
  /** A connection that receives no byte for this long has failed. */
  silenceMs: Milliseconds;
  signal: AbortSignal;
}

export interface DownloadResponse {
  /** Offset of the first byte of the body: the requested `from`, or 0 if the server sends the full artifact. */
  from: number;
  /** Size of the full artifact; null if the server does not send it. */
  total: number | null;
  /** A strong entity tag, or null. */
  etag: string | null;
  body: IncomingMessage;
}

const MAX_REDIRECTS = 3;

/** Throws `DownloadRefused` or `AddressRefused` on permanent failures; any other error may be retried. */
export async function requestArtifact(request: DownloadRequest): Promise<DownloadResponse> {
  let { url } = request;
  for (let redirects = 0; ; redirects++) {
    const body = await sendRequest(url, request);
    const { statusCode = 0, headers } = body;
    if (statusCode === 200 || statusCode === 206) return readResponse(body, request);
    body.destroy();
    if ([301, 302, 303, 307, 308].includes(statusCode) && headers.location !== undefined) {
      if (redirects === MAX_REDIRECTS) throw new DownloadRefused('too many redirects');
      url = redirectTarget(url, headers.location);
      continue;
    }
    if (statusCode === 416) throw new RangeNotSatisfiable('the server answered 416');
    if (statusCode >= 500 || [408, 425, 429].includes(statusCode)) {
      throw new RetryLater(`the server answered ${statusCode}`, (Number(headers['retry-after']) || 0) * 1_000);
    }
    throw new DownloadRefused(`the server answered ${statusCode}`);
  }
}

/** Resolves `Location`. A redirect from HTTPS to HTTP is refused. */
function redirectTarget(from: string, location: string): string {
  const to = URL.parse(location, from);
  if (to === null || (from.startsWith('https:') && to.protocol !== 'https:')) {
    throw new DownloadRefused('the redirect target is not allowed');
  }
  return to.href;
}

function sendRequest(
  text: string,
  { from, etag, trustedHosts, ca, silenceMs, signal }: DownloadRequest,
): Promise<IncomingMessage> {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new DownloadRefused('the URL must use http or https');
  if (url.username !== '' || url.password !== '') throw new DownloadRefused('the URL must not contain credentials');
  const trusted = trustedHosts.includes(url.hostname);
  checkHost(url, trusted);
  const resumes = from > 0 && etag !== null;
  return new Promise((resolve, reject) => {
    const options = {
      headers: {
        Accept: 'application/octet-stream, */*;q=0.1',
        'Accept-Encoding': 'identity',
        ...(resumes && { Range: `bytes=${from}-`, 'If-Range': etag }),
      },
      // No connection reuse: a pooled connection was checked against the policy of another host.
      agent: false as const,
      lookup: guardedLookup(trusted),
      signal,
      ...(ca !== undefined && { ca }),
    };
    const request = url.protocol === 'https:' ? requestHttps(url, options) : requestHttp(url, options);
    request.setTimeout(silenceMs, () => request.destroy(new Error(`no data received for ${silenceMs} ms`)));
    request.once('response', resolve);
    request.once('error', (error) => {
      // With several addresses, Node reports one error per address in an AggregateError.
      const refused = error instanceof AggregateError && error.errors.find((inner) => inner instanceof AddressRefused);
      reject(refused || error);
    });
    request.end();
  });
}

function readResponse(body: IncomingMessage, { from }: DownloadRequest): DownloadResponse {
  const { statusCode, headers } = body;
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    body.destroy();
    throw new DownloadRefused('the response has a Content-Encoding');
  }
  const etag = /^"/.test(headers.etag ?? '') ? (headers.etag as string) : null;
  if (statusCode === 200) {
    const length = headers['content-length'];
    return { from: 0, total: length === undefined ? null : Number(length), etag, body };
  }
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '');
  if (range === null || Number(range[1]) !== from) {
    body.destroy();
    throw new DownloadRefused('the server sent a different byte range than requested');
  }
  return { from, total: range[2] === '*' ? null : Number(range[2]), etag, body };
}
