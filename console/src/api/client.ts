import { type BackoffLimits, backoffDelay } from '../../../src/domain/backoff.ts';
import { SERVICE_PATH } from '../base.ts';
import { noteServerTime } from '../ui/clock.ts';
import { Problem, unreachableProblem } from './problem.ts';

// Client of the REST API. It uses the browser's cookie session, so no credential is accessible to scripts.

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The signed-in user. */
export const ME_PATH = '/v1/auth/me';
/** Requests that need no session: the identity query and the sign-in flow. */
const SESSIONLESS_PATHS: ReadonlySet<string> = new Set([ME_PATH, '/v1/auth/csrf', '/v1/auth/session', '/v1/auth/link']);
/** Requests with POST that change nothing. */
const READING_PATHS: ReadonlySet<string> = new Set(['/v1/history/query', '/graphql']);

let csrf: Promise<string> | null = null;
/** The response that ended the session; null while a session exists or before the first request. */
let sessionEnd: Problem | null = null;
/** Whether the session may have ended unnoticed: the service was unreachable, or closed a stream as unauthenticated. */
let isSessionUncertain = false;
let checking: Promise<unknown> | null = null;
/** Failed checks in a row, and the time before which requests of a page do not try again. */
let failedChecks = 0;
let checkAgainAt = 0;
const CHECK_AGAIN: BackoffLimits = { firstMs: 500, maxMs: 10_000 };
const signedOut = new Set<() => void>();

/** Calls `listener` once for each session that a response shows to be over. Returns the function that unsubscribes. */
export function subscribeToSignOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

/**
 * Records whether the session is over. The service counts every request without a session as a failed sign-in of the client
 * address, so the page must stop sending requests after the first such response.
 */
function recordSessionOutcome(path: string, problem: Problem | null): void {
  if (problem === null) {
    if (path !== ME_PATH) return;
    sessionEnd = null;
    isSessionUncertain = false;
    failedChecks = 0;
    checkAgainAt = 0;
  } else if (problem.status === 401 && path !== '/v1/auth/session') {
    const isFirst = sessionEnd === null;
    sessionEnd = problem;
    if (isFirst) for (const listener of signedOut) listener();
  }
}

/** Makes the next request check first whether the session still exists; concurrent requests share the check. */
export const markSessionUncertain = (): void => {
  isSessionUncertain = true;
};

/**
 * Throws if the session is over, or if that cannot be determined. While the service is unreachable, all queries of a page together
 * try once for each step of the back-off; a change that a user requests, and a stream with its own back-off, always try.
 */
async function requireSession(isRead: boolean): Promise<void> {
  if (sessionEnd === null && isSessionUncertain) {
    if (checking === null && isRead && Date.now() < checkAgainAt) throw unreachableProblem();
    checking ??= checkSession();
    await checking;
  }
  if (sessionEnd !== null) throw sessionEnd;
}

async function checkSession(): Promise<void> {
  try {
    await sendJson('GET', ME_PATH);
  } catch (thrown) {
    failedChecks += 1;
    checkAgainAt = Date.now() + backoffDelay(failedChecks, CHECK_AGAIN, 'half');
    throw thrown;
  } finally {
    checking = null;
  }
}

/** CSRF token, required for every change (contract §3). */
function csrfToken(): Promise<string> {
  csrf ??= sendJson<{ csrf_token: string }>('GET', '/v1/auth/csrf').then(({ csrf_token }) => csrf_token);
  csrf.catch(() => {
    csrf = null;
  });
  return csrf;
}

export const forgetCsrf = (): void => {
  csrf = null;
};

export interface RequestContent {
  body?: unknown;
  /** Instead of JSON. */
  file?: Blob | undefined;
  headers?: Record<string, string>;
}

/** Returns the body of a successful response; throws a `Problem` otherwise. `path` starts with a slash: `/v1/devices`. */
export async function requestJson<T>(method: Method, path: string, content: RequestContent = {}): Promise<T> {
  if (method === 'GET') return sendJson<T>(method, path, content);
  try {
    return await requestWithCsrf<T>(method, path, content);
  } catch (thrown) {
    // The token belongs to a previous session.
    if (!(thrown instanceof Problem) || thrown.code !== 'CSRF_FAILED') throw thrown;
    forgetCsrf();
    return requestWithCsrf<T>(method, path, content);
  }
}

async function requestWithCsrf<T>(method: Method, path: string, content: RequestContent): Promise<T> {
  return sendJson<T>(method, path, { ...content, headers: { ...content.headers, 'x-csrf-token': await csrfToken() } });
}

/** Requests a list that is a bare array. The path of the next page is in the `Link` header. */
export async function requestList<T>(path: string): Promise<{ rows: T[]; next: string | null }> {
  const { answer, response } = await sendRequest('GET', path);
  const [, next = null] = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '') ?? [];
  const url = next === null ? null : new URL(next, location.origin);
  return { rows: answer as T[], next: url === null ? null : (url.pathname + url.search).slice(SERVICE_PATH.length) };
}

const sendJson = async <T>(method: Method, path: string, content: RequestContent = {}): Promise<T> =>
  (await sendRequest(method, path, content)).answer as T;

async function sendRequest(
  method: Method,
  path: string,
  { body, file, headers = {} }: RequestContent = {},
): Promise<{ answer: unknown; response: Response }> {
  if (!SESSIONLESS_PATHS.has(path)) await requireSession(method === 'GET' || READING_PATHS.has(path));
  const response = await fetch(SERVICE_PATH + path, {
    method,
    credentials: 'same-origin',
    headers: {
      accept: 'application/json',
      ...headers,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(file !== undefined && { 'content-type': 'application/octet-stream' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(file !== undefined && { body: file }),
  }).catch(() => {
    markSessionUncertain();
    throw unreachableProblem();
  });
  noteServerTime(response.headers.get('date'));
  const text = await response.text().catch(() => {
    throw unreachableProblem();
  });
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  const answer: unknown = isJson && text !== '' ? JSON.parse(text) : text;
  const problem = response.ok ? null : problemOf(response, answer);
  recordSessionOutcome(path, problem);
  if (problem !== null) throw problem;
  return { answer, response };
}

function problemOf(response: Response, body: unknown): Problem {
  const given = typeof body === 'object' && body !== null ? (body as Partial<Problem> & { detail?: string }) : {};
  const retry = Number(response.headers.get('retry-after') ?? Number.NaN);
  return new Problem({
    code: given.code ?? 'UNREACHABLE',
    detail: given.detail ?? `The service responded with status ${response.status}.`,
    status: response.status,
    errors: given.errors ?? [],
    retryAfterS: Number.isFinite(retry) ? retry : null,
    body,
  });
}
