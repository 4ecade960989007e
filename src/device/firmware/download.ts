import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Milliseconds } from '../../domain/values.ts';
import { AddressRefused, checkHost, guardedLookup } from './address-policy.ts';

// One connection of a download; that it breaks and is taken up again is in fetch.ts.

/** The server, or what it sent, will not do: another try would end in the same way. */
export class DownloadRefused extends Error {
  override name = 'DownloadRefused';
}

/** The server is in trouble, or asks for patience. */
export class RetryLater extends Error {
  override name = 'TryLater';
  readonly afterMs: Milliseconds;
  constructor(message: string, afterMs: Milliseconds) {
    super(message);
    this.afterMs = afterMs;
  }
}

/** There is no such rest: the next try begins anew. */
export class RangeNotSatisfiable extends Error {
  override name = 'RangeGone';
}

export interface DownloadRequest {
  url: string;
  /** The bytes that are here already; more than 0 only with the `etag` under which they came. */
  from: number;
  etag: string | null;
  trustedHosts: readonly string[];
  ca?: string | Buffer;
  silenceMs: Milliseconds;
  signal: AbortSignal;
}

export interface DownloadResponse {
  /** Where the body begins: `from`, or 0 where the server starts over. */
  from: number;
  /** Of the whole artifact, where it is told. */
  total: number | null;
  /** A strong one. */
  etag: string | null;
  body: IncomingMessage;
}

const MAX_REDIRECTS = 3;

/** Throws `DownloadRefused`, `AddressRefused`, and anything else where another try may do. */
export async function requestArtifact(asked: DownloadRequest): Promise<DownloadResponse> {
  let url = asked.url;
  for (let redirects = 0; ; redirects++) {
    const body = await sendRequest(url, asked);
    const { statusCode = 0, headers } = body;
    if (statusCode === 200 || statusCode === 206) return readResponse(body, asked);
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

/** Never from HTTPS to HTTP. */
function redirectTarget(from: string, location: string): string {
  const to = URL.parse(location, from);
  if (to === null || (from.startsWith('https:') && to.protocol !== 'https:')) {
    throw new DownloadRefused('a redirect to where nothing is fetched from');
  }
  return to.href;
}

function sendRequest(
  text: string,
  { from, etag, trustedHosts, ca, silenceMs, signal }: DownloadRequest,
): Promise<IncomingMessage> {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw new DownloadRefused('the URL is neither http nor https');
  if (url.username !== '' || url.password !== '') throw new DownloadRefused('the URL holds credentials');
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
      // A connection of its own: one that was opened for another host was looked at for that one.
      agent: false as const,
      lookup: guardedLookup(trusted),
      signal,
      ...(ca !== undefined && { ca }),
    };
    const request = url.protocol === 'https:' ? requestHttps(url, options) : requestHttp(url, options);
    request.setTimeout(silenceMs, () => request.destroy(new Error(`nothing came for ${silenceMs} ms`)));
    request.once('response', resolve);
    request.once('error', (error) => {
      // With several addresses to try, why each failed stands inside.
      const refused = error instanceof AggregateError && error.errors.find((one) => one instanceof AddressRefused);
      reject(refused || error);
    });
    request.end();
  });
}

function readResponse(body: IncomingMessage, { from }: DownloadRequest): DownloadResponse {
  const { statusCode, headers } = body;
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    body.destroy();
    throw new DownloadRefused('the artifact is sent with a coding');
  }
  const etag = /^"/.test(headers.etag ?? '') ? (headers.etag as string) : null;
  if (statusCode === 200) {
    const length = headers['content-length'];
    return { from: 0, total: length === undefined ? null : Number(length), etag, body };
  }
  const range = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '');
  if (range === null || Number(range[1]) !== from) {
    body.destroy();
    throw new DownloadRefused('the server sent another part than was asked for');
  }
  return { from, total: range[2] === '*' ? null : Number(range[2]), etag, body };
}
