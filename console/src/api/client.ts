import { SERVICE } from '../base.ts';
import { noteServerTime } from '../ui/clock.ts';
import { Problem, unreachable } from './problem.ts';

// The REST API as the cookie session of this browser. No credential is ever in reach of a script.

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Says who is signed in. */
export const ME = '/v1/auth/me';
/** Requests that need no session: the identity query and the sign-in flow. */
const SIGN_IN: ReadonlySet<string> = new Set([ME, '/v1/auth/csrf', '/v1/auth/session']);

let csrf: Promise<string> | null = null;
/** The response that ended the session; null while a session exists or before the first request. */
let sessionEnd: Problem | null = null;
/** Whether the session may have ended unseen: the service was away, or closed a stream for want of one. */
let isDoubtful = false;
let checking: Promise<unknown> | null = null;
const signedOut = new Set<() => void>();

/** Calls `listener` once for each session that an answer says is over. Answers how to unsubscribe. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

/**
 * Keeps whether the session is over. The service counts every request without one as a failed sign-in of the address, so
 * the rest of the page must stop asking at the first such answer.
 */
function noteSession(path: string, problem: Problem | null): void {
  if (problem === null) {
    if (path !== ME) return;
    sessionEnd = null;
    isDoubtful = false;
  } else if (problem.status === 401 && path !== '/v1/auth/session') {
    const isFirst = sessionEnd === null;
    sessionEnd = problem;
    if (isFirst) for (const listener of signedOut) listener();
  }
}

/** Lets the next request find out first, once for all that wait to be sent, whether there still is a session. */
export const doubtSession = (): void => {
  isDoubtful = true;
};

/** Throws where the session is over, or where that cannot be known. */
async function needSession(): Promise<void> {
  if (sessionEnd === null && isDoubtful) {
    checking ??= once('GET', ME).finally(() => {
      checking = null;
    });
    await checking;
  }
  if (sessionEnd !== null) throw sessionEnd;
}

/** What changes something proves that this page asked for it (contract §3). */
function csrfToken(): Promise<string> {
  csrf ??= once<{ csrf_token: string }>('GET', '/v1/auth/csrf').then(({ csrf_token }) => csrf_token);
  csrf.catch(() => {
    csrf = null;
  });
  return csrf;
}

export const forgetCsrf = (): void => {
  csrf = null;
};

export interface Sent {
  body?: unknown;
  /** Instead of JSON. */
  file?: Blob | undefined;
  headers?: Record<string, string>;
}

/** The body of a successful answer; throws a `Problem` otherwise. `path` begins with a slash, as `/v1/devices`. */
export async function ask<T>(method: Method, path: string, sent: Sent = {}): Promise<T> {
  if (method === 'GET') return once<T>(method, path, sent);
  try {
    return await changing<T>(method, path, sent);
  } catch (thrown) {
    // The session is another one than the token was for.
    if (!(thrown instanceof Problem) || thrown.code !== 'CSRF_FAILED') throw thrown;
    forgetCsrf();
    return changing<T>(method, path, sent);
  }
}

async function changing<T>(method: Method, path: string, sent: Sent): Promise<T> {
  return once<T>(method, path, { ...sent, headers: { ...sent.headers, 'x-csrf-token': await csrfToken() } });
}

/** Of a list that is a bare array, with the path of its next page from the `Link` header. */
export async function askList<T>(path: string): Promise<{ rows: T[]; next: string | null }> {
  const { answer, response } = await exchange('GET', path);
  const [, next = null] = /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '') ?? [];
  const at = next === null ? null : new URL(next, location.origin);
  return { rows: answer as T[], next: at === null ? null : (at.pathname + at.search).slice(SERVICE.length) };
}

const once = async <T>(method: Method, path: string, sent: Sent = {}): Promise<T> =>
  (await exchange(method, path, sent)).answer as T;

async function exchange(
  method: Method,
  path: string,
  { body, file, headers = {} }: Sent = {},
): Promise<{ answer: unknown; response: Response }> {
  if (!SIGN_IN.has(path)) await needSession();
  const response = await fetch(SERVICE + path, {
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
    doubtSession();
    throw unreachable();
  });
  noteServerTime(response.headers.get('date'));
  const text = await response.text().catch(() => {
    throw unreachable();
  });
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  const answer: unknown = isJson && text !== '' ? JSON.parse(text) : text;
  const problem = response.ok ? null : problemOf(response, answer);
  noteSession(path, problem);
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
