import { SERVICE_PATH } from '../base.ts';
import { noteServerTime } from '../ui/clock.ts';
import { Problem, unreachableProblem } from './problem.ts';

// The REST API as the cookie session of this browser. No credential is ever in reach of a script.

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Says who is signed in. */
export const ME_PATH = '/v1/auth/me';
/** Requests that need no session: the identity query and the sign-in flow. */
const SESSIONLESS_PATHS: ReadonlySet<string> = new Set([ME_PATH, '/v1/auth/csrf', '/v1/auth/session']);

let csrf: Promise<string> | null = null;
/** The response that ended the session; null while a session exists or before the first request. */
let sessionEnd: Problem | null = null;
/** Whether the session may have ended unseen: the service was away, or closed a stream for want of one. */
let isSessionUncertain = false;
let checking: Promise<unknown> | null = null;
const signedOut = new Set<() => void>();

/** Calls `listener` once for each session that an answer says is over. Answers how to unsubscribe. */
export function subscribeToSignOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

/**
 * Keeps whether the session is over. The service counts every request without one as a failed sign-in of the address, so
 * the rest of the page must stop asking at the first such answer.
 */
function recordSessionOutcome(path: string, problem: Problem | null): void {
  if (problem === null) {
    if (path !== ME_PATH) return;
    sessionEnd = null;
    isSessionUncertain = false;
  } else if (problem.status === 401 && path !== '/v1/auth/session') {
    const isFirst = sessionEnd === null;
    sessionEnd = problem;
    if (isFirst) for (const listener of signedOut) listener();
  }
}

/** Lets the next request find out first, once for all that wait to be sent, whether there still is a session. */
export const markSessionUncertain = (): void => {
  isSessionUncertain = true;
};

/** Throws where the session is over, or where that cannot be known. */
async function requireSession(): Promise<void> {
  if (sessionEnd === null && isSessionUncertain) {
    checking ??= sendJson('GET', ME_PATH).finally(() => {
      checking = null;
    });
    await checking;
  }
  if (sessionEnd !== null) throw sessionEnd;
}

/** What changes something proves that this page asked for it (contract §3). */
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

/** The body of a successful answer; throws a `Problem` otherwise. `path` begins with a slash, as `/v1/devices`. */
export async function requestJson<T>(method: Method, path: string, sent: RequestContent = {}): Promise<T> {
  if (method === 'GET') return sendJson<T>(method, path, sent);
  try {
    return await requestWithCsrf<T>(method, path, sent);
  } catch (thrown) {
    // The session is another one than the token was for.
    if (!(thrown instanceof Problem) || thrown.code !== 'CSRF_FAILED') throw thrown;
    forgetCsrf();
    return requestWithCsrf<T>(method, path, sent);
  }
}

async function requestWithCsrf<T>(method: Method, path: string, sent: RequestContent): Promise<T> {
  return sendJson<T>(method, path, { ...sent, headers: { ...sent.headers, 'x-csrf-token': await csrfToken() } });
}

/** Of a list that is a bare array, with the path of its next page from the `Link` header. */
export async function requestList<T>(path: string): Promise<{ rows: T[]; next: string | null }> {
  const { answer, response } = await sendRequest('GET', path);
  const [, next = null] = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '') ?? [];
  const at = next === null ? null : new URL(next, location.origin);
  return { rows: answer as T[], next: at === null ? null : (at.pathname + at.search).slice(SERVICE_PATH.length) };
}

const sendJson = async <T>(method: Method, path: string, sent: RequestContent = {}): Promise<T> =>
  (await sendRequest(method, path, sent)).answer as T;

async function sendRequest(
  method: Method,
  path: string,
  { body, file, headers = {} }: RequestContent = {},
): Promise<{ answer: unknown; response: Response }> {
  if (!SESSIONLESS_PATHS.has(path)) await requireSession();
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
  const told = typeof body === 'object' && body !== null ? (body as Partial<Problem> & { detail?: string }) : {};
  const retry = Number(response.headers.get('retry-after') ?? Number.NaN);
  return new Problem({
    code: told.code ?? 'UNREACHABLE',
    detail: told.detail ?? `The service answered ${response.status}.`,
    status: response.status,
    errors: told.errors ?? [],
    retryAfterS: Number.isFinite(retry) ? retry : null,
    body,
  });
}
