import { randomUUID } from 'node:crypto';
import { type Problem, RefusedError, UnreachableError, UsageError } from './errors.ts';

export interface ApiResponse<Body> {
  status: number;
  headers: Headers;
  body: Body;
}

export interface RequestOptions {
  body?: object;
  /** Instead of a JSON body; as long as it takes. */
  binaryBody?: AsyncIterable<Uint8Array>;
  headers?: Readonly<Record<string, string>>;
  /** Statuses from 400 on that are an answer, not a refusal. */
  acceptStatuses?: readonly number[];
  /** Waits as the service says and asks again where it is asked too much, under the same `Idempotency-Key`. */
  retryWhenBusy?: boolean;
  /** Doing it twice does no harm: a patient request of this kind has no `Idempotency-Key`. */
  idempotent?: boolean;
}

/** The REST API of a service, as one user. */
export interface Api {
  url: string;
  request<Body>(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    asking?: RequestOptions,
  ): Promise<ApiResponse<Body>>;
  get<Body>(path: string, query?: Readonly<Record<string, string | undefined>>): Promise<Body>;
  post<Body>(path: string, body?: object): Promise<Body>;
}

const TIMEOUT_MS = 30_000;
/** As long as the service takes an upload. */
const UPLOAD_TIMEOUT_MS = 15 * 60_000;
const MAX_ATTEMPTS = 20;
const MAX_RETRY_AFTER_S = 60;

/** `path` begins with `/v1/…` or another root of the service. Throws `Refused`, `Unreachable`, `Usage`. */
export function makeApi(url: string, token: string | null): Api {
  const root = baseUrlOf(url);

  async function ask<Body>(method: string, path: string, asking: RequestOptions = {}): Promise<ApiResponse<Body>> {
    const headers: Record<string, string> = { accept: 'application/json', ...asking.headers };
    if (token !== null) headers.authorization = `Bearer ${token}`;
    if (asking.body !== undefined) headers['content-type'] = 'application/json';
    if (asking.binaryBody !== undefined) headers['content-type'] = 'application/octet-stream';
    if (asking.retryWhenBusy && !asking.idempotent) headers['idempotency-key'] = randomUUID();
    for (let tries = 1; ; tries++) {
      const response = await send(root + path, {
        method,
        headers,
        ...(asking.body !== undefined && { body: JSON.stringify(asking.body) }),
        ...(asking.binaryBody !== undefined && { body: asking.binaryBody, duplex: 'half' as const }),
      });
      const { status } = response;
      if (asking.retryWhenBusy && (status === 429 || status === 503) && tries < MAX_ATTEMPTS) {
        await response.arrayBuffer();
        await pause(Math.min(Number(response.headers.get('retry-after') ?? 1) || 1, MAX_RETRY_AFTER_S) * 1000);
        continue;
      }
      const body = await readBody(response);
      if (status < 400 || asking.acceptStatuses?.includes(status))
        return { status, headers: response.headers, body: body as Body };
      throw new RefusedError(problemOf(status, body));
    }
  }

  return {
    url: root,
    request: ask,
    async get(path, query = {}) {
      const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
      const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
      return (await ask<never>('GET', path + search)).body;
    },
    post: async (path, body) => (await ask<never>('POST', path, body === undefined ? {} : { body })).body,
  };
}

/** Without a slash at the end; the roots `/v1` and `/api/v1` may be given with it. */
function baseUrlOf(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new UsageError('--url must be a URL that begins with http:// or https://');
  }
  return url.replace(/\/+$/, '').replace(/(\/api)?\/v1$/, '');
}

/** What `fetch` takes, a body that streams too, which its types do not know. */
interface FetchOptions {
  method: string;
  headers: Record<string, string>;
  body?: string | AsyncIterable<Uint8Array>;
  duplex?: 'half';
}

async function send(url: string, init: FetchOptions): Promise<Response> {
  try {
    const timeoutMs = init.duplex === undefined ? TIMEOUT_MS : UPLOAD_TIMEOUT_MS;
    return await fetch(url, { ...init, signal: AbortSignal.timeout(timeoutMs) } as RequestInit);
  } catch (error) {
    throw new UnreachableError(`${new URL(url).origin} does not answer: ${errorReason(error)}`);
  }
}

async function readBody(response: Response): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (error) {
    throw new UnreachableError(`the answer broke off: ${errorReason(error)}`);
  }
  if (!/json/.test(response.headers.get('content-type') ?? '')) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function problemOf(status: number, body: unknown): Problem {
  const told = typeof body === 'object' && body !== null ? (body as Partial<Problem>) : {};
  return { title: `The service answered ${status}`, ...told, status };
}

/** `fetch` and `ws` hide why in a cause or in the first of several errors. */
export function errorReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return 'no answer in time';
  if (error instanceof AggregateError && error.errors.length > 0) return errorReason(error.errors[0]);
  if (error.cause !== undefined) return errorReason(error.cause);
  return error.message || ('code' in error ? String(error.code) : error.name);
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
