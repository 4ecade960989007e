import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inject } from 'vitest';
import { readConfig } from '../../src/config.ts';
import type { Log } from '../../src/domain/log.ts';
import type { FixedRates } from '../../src/edges/shared/rate-limiter.ts';
import { issueToken, type Service, type StartOptions, start } from '../../src/main.ts';
import type { Services } from '../../src/operations/operation.ts';
import { type TestClock, testClock } from './clock.ts';
import { copyPglite } from './pglite.ts';
import { type FreshDatabase, freshDatabase } from './store.ts';
import { record } from './traffic.ts';

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

export interface ApiResponse {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what an external client would read
  body: any;
  headers: Headers;
}

/** An HTTP client with a token. */
export interface ApiClient {
  token: string;
  get(path: string, headers?: Record<string, string>): Promise<ApiResponse>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiResponse>;
  put(path: string, body: unknown, headers?: Record<string, string>): Promise<ApiResponse>;
  patch(path: string, body: unknown): Promise<ApiResponse>;
  delete(path: string): Promise<ApiResponse>;
}

export interface TestService {
  service: Service;
  /** The services that the edges use; not available while the process is a standby. */
  services: Services;
  url: string;
  clock: TestClock;
  dataDir: string;
  fatal: string[];
  /** A client with this token, or an anonymous one. */
  api(token?: string): ApiClient;
  /** A token for this subject. */
  token(sub: string, more?: { email?: string; scope?: string; ttlS?: number }): Promise<string>;
  /** The owner of a new tenant with a home. */
  owner(sub?: string): Promise<ApiClient & { tenantId: string; homeId: string; userId: string }>;
  stop(): Promise<void>;
}

/** PostgreSQL databases by data folder, until the first service of the folder has stopped. */
const databases = new Map<string, FreshDatabase>();

/**
 * The assembled service on loopback, on free ports, with a new data folder and database unless `env` has `DATA_DIR` or
 * `DATABASE_URL` (as of a `Deployment`): PostgreSQL if it is installed, because opening a copy of the embedded database
 * takes two seconds, otherwise PGlite. A later service in the same data folder opens the same database. Requests are
 * limited only if `env` or `limits` sets rates. It is the active process when this resolves, unless it `standsBy`. Its
 * clock follows real time, plus what a test adds.
 */
export async function startService(
  env: Record<string, string> = {},
  { standsBy, ...more }: Omit<Partial<StartOptions>, 'clock' | 'onFatal'> & { clock?: TestClock; standsBy?: true } = {},
): Promise<TestService> {
  const dataDir = env.DATA_DIR ?? mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
  if (!env.DATA_DIR && !env.DATABASE_URL) await makeDatabase(dataDir);
  const base = readConfig(
    {
      PORT: '0',
      MQTT_PORT: '0',
      SIDECAR: 'off',
      LOG_LEVEL: 'silent',
      RATE_LIMITS: 'free=0,pro=0',
      ...env,
      DATA_DIR: dataDir,
    },
    false,
  );
  // The keys are files in the data folder, as with an embedded database.
  const config = { ...base, databaseUrl: base.databaseUrl ?? databases.get(dataDir)?.url ?? null };
  const clock = more.clock ?? runningClock();
  const fatal: string[] = [];
  let services: Services | undefined;
  const service = await start(config, {
    log: silentLog,
    ...more,
    limits: { ...more.limits, rates: { ...UNLIMITED, ...more.limits?.rates } },
    // With a wall clock that the test sets, the service derives its own time.
    ...(more.wallClock ? {} : { clock }),
    onFatal: (reason) => fatal.push(reason),
    onAssembled: (parts) => {
      services = parts;
    },
  });
  if (!standsBy) await service.active;
  const token = (sub: string, extra: { email?: string; scope?: string; ttlS?: number } = {}) =>
    issueToken(config.keys.tokenSigning, { sub, ttlS: 86_400, ...extra });
  const api = (bearer = ''): ApiClient => makeApiClient(service.url, bearer);
  let owners = 0;
  return {
    service,
    get services() {
      if (services === undefined) throw new Error('the service is a standby');
      return services;
    },
    url: service.url,
    clock,
    dataDir,
    fatal,
    api,
    token,
    async owner(sub = `owner-${++owners}`) {
      const caller = api(await token(sub, { email: `${sub}@example.com` }));
      const tenant = await caller.post('/v1/tenant/register', { tenant_name: `Tenant of ${sub}` });
      const home = await caller.post('/v1/homes', { home_name: 'Home', timezone: 'Europe/Berlin' });
      if (tenant.status !== 201 || home.status !== 201) throw new Error(JSON.stringify([tenant.body, home.body]));
      return { ...caller, tenantId: tenant.body.tenant_id, userId: tenant.body.user_id, homeId: home.body.id };
    },
    async stop() {
      await service.stop();
      if (env.DATA_DIR) return;
      await databases.get(dataDir)?.drop();
      databases.delete(dataDir);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function makeDatabase(dataDir: string): Promise<void> {
  const serverUrl = inject('postgresUrl');
  if (serverUrl === null) copyPglite(inject('pgliteTemplate'), dataDir);
  else databases.set(dataDir, await freshDatabase(serverUrl));
}

/** Tests of the limits set their own. */
const UNLIMITED: FixedRates = { anonymous: 0, session: 0, signIns: 0 };

/** Real time, which a test can advance. */
export function runningClock(): TestClock {
  let ahead = 0;
  return {
    now: () => Date.now() + ahead,
    advance: (milliseconds) => {
      ahead += milliseconds;
    },
    set: (to) => {
      ahead = to - Date.now();
    },
  };
}

export { testClock };

export function makeApiClient(url: string, token: string): ApiClient {
  const request = async (
    method: string,
    path: string,
    body?: unknown,
    more: Record<string, string> = {},
  ): Promise<ApiResponse> => {
    const headers = {
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...more,
    };
    const sent = typeof body === 'string' ? body : JSON.stringify(body);
    const answer = await fetch(url + path, { method, headers, ...(sent === undefined ? {} : { body: sent }) });
    const { status } = answer;
    const text = await answer.text();
    record({ method, path, headers, body: sent }, { status, headers: answer.headers, text });
    const isJson = /json/.test(answer.headers.get('content-type') ?? '');
    return { status, body: isJson && text !== '' ? JSON.parse(text) : text, headers: answer.headers };
  };
  return {
    token,
    get: (path, headers) => request('GET', path, undefined, headers),
    post: (path, body, headers) => request('POST', path, body, headers),
    put: (path, body, headers) => request('PUT', path, body, headers),
    patch: (path, body) => request('PATCH', path, body),
    delete: (path) => request('DELETE', path),
  };
}
