import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import { type ReceivedProblem, RefusedError, UnreachableError, UsageError } from './errors.ts';

export interface ApiResponse<Body> {
  status: number;
  headers: Headers;
  body: Body;
}

export interface RequestOptions {
  body?: object;
  /** Streamed instead of a JSON body, with the longer upload timeout. */
  binaryBody?: AsyncIterable<Uint8Array>;
  headers?: Readonly<Record<string, string>>;
  /** Statuses of 400 and above that are returned; any other throws `RefusedError`. */
  acceptStatuses?: readonly number[];
  /** Retries after 429 and 503 as `Retry-After` requires, with the same `Idempotency-Key`. */
  retryWhenBusy?: boolean;
  /** The request is idempotent: with `retryWhenBusy` it is sent without an `Idempotency-Key`. */
  idempotent?: boolean;
}

/** REST client of a service, authenticated as one user. */
export interface Api {
  url: string;
  request<Body>(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    options?: RequestOptions,
  ): Promise<ApiResponse<Body>>;
  /** A list in the query is a parameter that is repeated. */
  get<Body>(path: string, query?: Readonly<Record<string, string | readonly string[] | undefined>>): Promise<Body>;
  post<Body>(path: string, body?: object): Promise<Body>;
  /** Writes the body of a response as it arrives. Throws `UnreachableError` if it is incomplete. */
  download(path: string, query: Readonly<Record<string, string | undefined>>, target: Writable): Promise<void>;
}

const TIMEOUT_MS = 30_000;
/** The service's timeout for an upload; also for a download. */
const LONG_TIMEOUT_MS = 15 * 60_000;
const MAX_ATTEMPTS = 20;
const MAX_RETRY_AFTER_S = 60;

/**
 * Creates a client. Paths start with `/v1/` or another root; `signal` aborts all requests. Throws `RefusedError`,
 * `UnreachableError` and `UsageError`.
 */
export function makeApi(url: string, token: string | null, signal?: AbortSignal): Api {
  const root = baseUrlOf(url);

  async function request<Body>(method: string, path: string, options: RequestOptions = {}): Promise<ApiResponse<Body>> {
    const headers: Record<string, string> = { accept: 'application/json', ...options.headers };
    if (token !== null) headers.authorization = `Bearer ${token}`;
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    if (options.binaryBody !== undefined) headers['content-type'] = 'application/octet-stream';
    if (options.retryWhenBusy && !options.idempotent) headers['idempotency-key'] = randomUUID();
    for (let attempts = 1; ; attempts++) {
      const response = await send(root + path, {
        method,
        headers,
        ...(signal !== undefined && { signal }),
        ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
        ...(options.binaryBody !== undefined && {
          body: options.binaryBody,
          duplex: 'half' as const,
          timeoutMs: LONG_TIMEOUT_MS,
        }),
      });
      const { status } = response;
      if (options.retryWhenBusy && (status === 429 || status === 503) && attempts < MAX_ATTEMPTS) {
        await response.arrayBuffer();
        await pause(Math.min(Number(response.headers.get('retry-after') ?? 1) || 1, MAX_RETRY_AFTER_S) * 1000);
        continue;
      }
      const body = await readBody(response);
      if (status < 400 || options.acceptStatuses?.includes(status))
        return { status, headers: response.headers, body: body as Body };
      throw new RefusedError(receivedProblemOf(status, body));
    }
  }

  return {
    url: root,
    request,
    get: async (path, query = {}) => (await request<never>('GET', path + searchOf(query))).body,
    post: async (path, body) => (await request<never>('POST', path, body === undefined ? {} : { body })).body,
    async download(path, query, target) {
      const headers = token === null ? {} : { authorization: `Bearer ${token}` };
      const response = await send(root + path + searchOf(query), {
        method: 'GET',
        headers,
        timeoutMs: LONG_TIMEOUT_MS,
      });
      if (!response.ok) throw new RefusedError(receivedProblemOf(response.status, await readBody(response)));
      await writeBody(response, target);
    },
  };
}

function searchOf(query: Readonly<Record<string, string | readonly string[] | undefined>>): string {
  const defined = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [value].flat().map((one) => [name, one]),
  );
  return defined.length === 0 ? '' : `?${new URLSearchParams(defined)}`;
}

async function writeBody(response: Response, target: Writable): Promise<void> {
  const chunks = response.body?.getReader();
  try {
    for (let next = await chunks?.read(); next?.value !== undefined; next = await chunks?.read()) {
      if (!target.write(next.value)) await once(target, 'drain');
    }
  } catch (error) {
    throw new UnreachableError(`connection lost, the output is incomplete: ${errorReason(error)}`);
  }
}

/** Removes trailing slashes and an API root (`/v1` or `/api/v1`) from the URL. */
function baseUrlOf(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new UsageError('--url must be a URL that starts with http:// or https://');
  }
  return url.replace(/\/+$/, '').replace(/(\/api)?\/v1$/, '');
}

/** Options of `fetch`, including a streamed body, which its types lack. */
interface FetchOptions {
  method: string;
  headers: Record<string, string>;
  body?: string | AsyncIterable<Uint8Array>;
  duplex?: 'half';
  timeoutMs?: number;
  signal?: AbortSignal;
}

async function send(url: string, { timeoutMs = TIMEOUT_MS, signal, ...init }: FetchOptions): Promise<Response> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const either = signal === undefined ? timeout : AbortSignal.any([timeout, signal]);
  try {
    return await fetch(url, { ...init, signal: either } as RequestInit);
  } catch (error) {
    throw new UnreachableError(`${new URL(url).origin} does not answer: ${errorReason(error)}`);
  }
}

async function readBody(response: Response): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    throw new UnreachableError(`connection lost while reading the response: ${errorReason(error)}`);
  }
  if (!/json/.test(response.headers.get('content-type') ?? '')) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The problem in a response with an error status. */
export function receivedProblemOf(status: number, body: unknown): ReceivedProblem {
  const details = typeof body === 'object' && body !== null ? (body as Partial<ReceivedProblem>) : {};
  if ('change_id' in details && 'reason' in details) {
    const detail = `${details.reason} A user that the policy allows confirms it with: twinkeep changes approve ${details.change_id}`;
    return { ...details, title: 'The change waits for a confirmation', detail, status };
  }
  return { title: `The service answered ${status}`, ...details, status };
}

/** Message of the innermost error: `fetch` and `ws` wrap it in a cause or an AggregateError. */
export function errorReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'the request timed out';
  if (error instanceof AggregateError && error.errors.length > 0) return errorReason(error.errors[0]);
  if (error.cause !== undefined) return errorReason(error.cause);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
