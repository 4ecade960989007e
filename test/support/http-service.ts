import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { v7 } from 'uuid';
import type { LocalShards } from '../../src/actors/owned-shards.ts';
import { Runtime } from '../../src/actors/runtime.ts';
import { defaultHistoryRetention } from '../../src/domain/history/retention.ts';
import type { Log } from '../../src/domain/log.ts';
import { defaultQuotas } from '../../src/domain/quotas.ts';
import { makeSealer, type Sealer } from '../../src/domain/sealing.ts';
import { makeUrlSigner } from '../../src/domain/signed-url.ts';
import { type GraphqlEdge, makeGraphql } from '../../src/edges/graphql/edge.ts';
import type { SocketLimits } from '../../src/edges/graphql/socket-limits.ts';
import { McpEdge } from '../../src/edges/mcp/edge.ts';
import type { SessionLimits } from '../../src/edges/mcp/session-registry.ts';
import { makeRestListener, type RestParts } from '../../src/edges/rest/listener.ts';
import { publicResources } from '../../src/edges/rest/public-resources.ts';
import { routes } from '../../src/edges/rest/routes.ts';
import { handleProtocolErrors, serverLimits } from '../../src/edges/rest/server.ts';
import { apiKeyVerifier } from '../../src/edges/shared/api-key-verifier.ts';
import { Authenticator, internalTokenVerifier, type Verifier } from '../../src/edges/shared/authenticator.ts';
import { clientAddress } from '../../src/edges/shared/client-address.ts';
import { makeHttpAuthenticator } from '../../src/edges/shared/http-authenticator.ts';
import { ConnectionQuota, type ConnectionQuotaLimits } from '../../src/edges/shared/live/connection-quota.ts';
import { Metrics } from '../../src/edges/shared/metrics.ts';
import { protectedResource } from '../../src/edges/shared/protected-resource.ts';
import {
  type FixedRates,
  makeRequestRateLimiter,
  type RequestRateLimiter,
} from '../../src/edges/shared/rate-limiter.ts';
import { referencePage } from '../../src/edges/shared/reference-pages.ts';
import { currentDefinition, definitionFor } from '../../src/machines/versions.ts';
import { asyncApiDocument } from '../../src/main/asyncapi-document.ts';
import { referenceFiles } from '../../src/main/built-pages.ts';
import { loadCallerServices } from '../../src/main/caller-services.ts';
import { makeSignInServices } from '../../src/main/sign-in-services.ts';
import { CognitiveLayer } from '../../src/operations/cognition/cognition.ts';
import type { Cognition } from '../../src/operations/cognition/contract.ts';
import { plannerTimeoutResolver } from '../../src/operations/cognition/planner-timeout.ts';
import type { Services } from '../../src/operations/operation.ts';
import { makePerform, type Perform } from '../../src/operations/perform.ts';
import { planStepResolver, planStepSyncResolver } from '../../src/operations/plans/plan-step-resolver.ts';
import { makeArtifacts } from '../../src/services/artifacts.ts';
import { AuditChain } from '../../src/services/audit-chain.ts';
import { AuditWriter } from '../../src/services/audit-writer.ts';
import { ConcurrencyLimiter } from '../../src/services/concurrency-limiter.ts';
import { DeviceActivityLog } from '../../src/services/device-activity-log.ts';
import { type Flags, loadFlags } from '../../src/services/flags.ts';
import { Health, type PartState } from '../../src/services/health.ts';
import type { InvalidationBus } from '../../src/services/invalidation-bus.ts';
import { KeyedLocks } from '../../src/services/keyed-locks.ts';
import { ManifestCache } from '../../src/services/manifest-cache.ts';
import { noSidecar } from '../../src/services/sidecar.ts';
import { StoreLiveness } from '../../src/services/store-liveness.ts';
import { importTokenKey, type NewToken, signToken, type TokenKey } from '../../src/services/tokens.ts';
import { artifactFolder } from '../../src/store/artifact-folder.ts';
import { MemoryRateLimiter } from '../../src/store/cache/memory-rate-limiter.ts';
import { NodeShareRateLimiter } from '../../src/store/cache/node-share-rate-limiter.ts';
import type { ArtifactFiles } from '../../src/store/contract/artifact-files.ts';
import type { Cache, Store, User } from '../../src/store/contract.ts';
import { assertDocumented } from './assert-documented.ts';
import { type TestClock, testClock } from './clock.ts';
import { httpRequest } from './http-request.ts';
import { MemoryCache } from './memory-cache.ts';
import { MemoryNodes } from './memory-nodes.ts';
import { MemoryStore } from './memory-store.ts';
import { record } from './traffic.ts';

export interface CallOptions {
  token?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface CallResult {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape of its responses
  body: any;
}

/** The service without MQTT, with its REST edge on a free port. */
export interface HttpService<Kept extends Store = Store> {
  url: string;
  store: Kept;
  clock: TestClock;
  runtime: Runtime;
  /** Seals and opens stored values with other master keys, as after a restart. */
  replaceSealer(next: Sealer): void;
  services: Services;
  cognition: Cognition;
  perform: Perform;
  identity: Authenticator;
  rateLimiter: RequestRateLimiter;
  flags: Flags;
  key: TokenKey;
  server: Server;
  mcp: McpEdge;
  graphql: GraphqlEdge;
  /** Fields of log lines with level error. */
  errors: object[];
  observed: { route: string; status: number }[];
  state: { draining: boolean; stopping: boolean; cacheHealthy: boolean; mqtt: PartState };
  token(sub: string, more?: Partial<NewToken>): Promise<string>;
  call(method: string, path: string, sent?: CallOptions): Promise<CallResult>;
  /** A new user with a new tenant: the user's token and ids. */
  owner(name?: string): Promise<{ token: string; userId: string; tenantId: string }>;
  /** A new user with this role in an existing tenant. */
  member(tenantId: string, role: 'viewer' | 'user' | 'admin'): Promise<string>;
  updateUser(userId: string, changes: Partial<User>): Promise<void>;
  close(): Promise<void>;
}

/** Differences from the service. Without `rateLimits` and `fixedRates` requests are not limited. */
export interface HttpServiceOptions extends Partial<RestParts> {
  rateLimits?: Record<string, number>;
  fixedRates?: Partial<FixedRates>;
  /** The number of nodes that divide the limits; 1 by default. */
  sharingNodes?: number;
  mcpLimits?: Partial<SessionLimits>;
  graphqlLimits?: Partial<SocketLimits>;
  webSocketQuota?: Partial<ConnectionQuotaLimits>;
  /** Restricts the GraphQL schema to administrators. */
  production?: boolean;
  /** Default: the bus of the one active process. */
  invalidations?: InvalidationBus;
  /** Verifiers in addition to the service's own. */
  verifiers?: readonly Verifier[];
  /** A new folder by default. */
  artifactFiles?: ArtifactFiles;
  /** Default: the process owns everything. */
  shards?: LocalShards;
  /** Entries of each kind in the cache; 10,000 by default. */
  maxCacheEntries?: number;
}

const UNLIMITED: FixedRates = { anonymous: 0, session: 0, signIns: 0 };

/** Starts the service on a store in memory. */
export function startHttpService(more: HttpServiceOptions = {}): Promise<HttpService<MemoryStore>> {
  const store = new MemoryStore();
  return startHttpServiceOn(store, more, (userId, changes) => {
    const user = store.users.get(userId);
    if (user === undefined) throw new Error('unknown user');
    store.users.set(userId, { ...user, ...changes });
  });
}

/** Starts the service on any store; `change` changes a user in that store. */
export async function startHttpServiceOn<Kept extends Store>(
  store: Kept,
  options: HttpServiceOptions,
  change: (userId: string, changes: Partial<User>) => void | Promise<void>,
): Promise<HttpService<Kept>> {
  const { rateLimits, fixedRates, mcpLimits, graphqlLimits, artifactFiles, invalidations, shards, ...more } = options;
  const { sharingNodes = 1, verifiers = [], production = false, maxCacheEntries = 10_000, webSocketQuota } = options;
  const clock = testClock(Date.now());
  const errors: object[] = [];
  const log: Log = { debug() {}, info() {}, warn() {}, error: (fields) => void errors.push(fields) };
  const definitions = (kind: Parameters<typeof currentDefinition>[0], version?: number) =>
    version === undefined ? currentDefinition(kind) : definitionFor(kind, version);
  const runtime = new Runtime({ store, definitions, clock, log, ...(shards && { shards }) });
  await runtime.start();
  const state: HttpService['state'] = { draining: false, stopping: false, cacheHealthy: true, mqtt: 'operational' };
  const cache: Cache = new MemoryCache(clock, { maxEntries: maxCacheEntries });
  cache.healthy = () => state.cacheHealthy;
  let sealer = makeSealer({ current: randomBytes(32) });
  const nodes = new MemoryNodes();
  nodes.masterKeys = () => sealer.keyIds;
  const { privateKey } = await generateKeyPair('EdDSA', { extractable: true });
  const key = await importTokenKey(await exportJWK(privateKey));
  const newId = () => v7();
  const audit = new AuditWriter({ store, clock, newId, log });
  const liveness = new StoreLiveness(store);
  const callers = await loadCallerServices({
    store,
    cache,
    clock,
    log,
    newId,
    liveness,
    ...(invalidations && { invalidations }),
  });
  const { users } = callers;
  const flags = await loadFlags(store.administration, callers.invalidations);
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-artifacts-'));
  const settings = { apiBaseUrl: '' };
  const artifacts = makeArtifacts({
    ...{ store, clock, newId, log, settings },
    files: artifactFiles ?? artifactFolder(join(dataDir, 'firmware')),
    signer: makeUrlSigner({ current: randomBytes(32) }),
  });
  const services: Services = {
    ...makeSignInServices({
      cache,
      clock,
      invalidations: callers.invalidations,
      sealer,
      tokenKey: key,
      identity: () => identity,
    }),
    ...{ store, cache, clock, newId, newTenantId: newId, log },
    ...callers,
    rates: new NodeShareRateLimiter(new MemoryRateLimiter(clock), () => sharingNodes),
    actors: runtime.actors,
    sessions: runtime.sessions,
    deviceActivity: new DeviceActivityLog(clock),
    manifests: new ManifestCache(store.devices),
    artifacts,
    locks: new KeyedLocks(),
    audit,
    auditChain: new AuditChain({ store, clock, log, retentionDays: 365 }),
    auditExports: new ConcurrencyLimiter('audit_exports'),
    historyExports: new ConcurrencyLimiter('history_exports'),
    historyQueries: new ConcurrencyLimiter('history_queries'),
    masterKeys: {
      isCurrent: (blob) => sealer.isCurrent(blob),
      get keyIds() {
        return sealer.keyIds;
      },
    },
    seal: (plain, boundTo) => sealer.seal(plain, boundTo),
    open: (blob, boundTo) => sealer.open(blob, boundTo),
    flags: () => flags.current(),
    sidecar: { ...noSidecar },
    setFlag: flags.set,
    health: new Health({
      ...{ store, cache, clock },
      redis: true,
      mqtt: () => state.mqtt,
      worker: () => 'operational',
      stopping: () => state.stopping,
      clockOffsets: () => null,
    }),
    nodes,
    settings: {
      apiBaseUrl: 'http://127.0.0.1/v1',
      mqttUrl: 'mqtt://127.0.0.1',
      betaDeviceLimit: 0,
      publicCounts: true,
      defaultTier: 'free',
      sessionMaxAgeS: 43_200,
      rateLimits: rateLimits ?? { free: 0, pro: 0 },
      ...{ credentialRateLimits: {}, addressRateLimit: 0, quotas: defaultQuotas },
      ...{ historyRetention: defaultHistoryRetention, historyBytes: null, commandRetentionDays: 90 },
      cloudPublicKeys: [],
      changelog: [
        { version: 'Unreleased', date: null, changes: ['Added: something'] },
        { version: '1.0.0', date: '2026-01-01', changes: ['Added: everything'] },
        { version: '0.9.0', date: '2025-12-01', changes: ['Added: a start'] },
      ],
    },
  };
  runtime.outbox.registerResolver('plan.ask', planStepResolver(services), planStepSyncResolver(services));
  runtime.outbox.registerResolver(
    'plan.unheard',
    plannerTimeoutResolver(services, (tenantId) => runtime.openedAt(tenantId)),
  );
  const cognition = new CognitiveLayer(services, flags);
  const perform = makePerform(services, liveness);
  const latch = makeRequestRateLimiter(services, liveness, { ...UNLIMITED, ...fixedRates });
  const identity = new Authenticator({
    ...{ ...callers, rateLimiter: latch, audit, clock, newId, log },
    verifiers: [apiKeyVerifier(callers.apiKeys), ...verifiers, internalTokenVerifier(key, clock)],
  });
  const authenticator = makeHttpAuthenticator({ identity, services, secure: false });
  const publicUrl = () => settings.apiBaseUrl.slice(0, -'/v1'.length);
  const mcp = new McpEdge({
    ...{ services, perform, identity, rateLimiter: latch, publicUrl, log },
    ...{ addressOf: clientAddress([]), host: '127.0.0.1' },
    observe: (route, _, status) => void observed.push({ route, status }),
    ...(mcpLimits && { limits: mcpLimits }),
  });
  const observed: HttpService['observed'] = [];
  const metrics = new Metrics();
  const reference = referenceFiles();
  const graphql = makeGraphql({
    ...{ services, identity, authenticator, rateLimiter: latch, perform, production, draining: () => state.draining },
    addressOf: clientAddress([]),
    explorer: () => referencePage(reference, 'graphql'),
    observe: (route, _, status) => void observed.push({ route, status }),
    ...(graphqlLimits && { limits: graphqlLimits }),
    quota: new ConnectionQuota(webSocketQuota),
  });
  const listener = makeRestListener({
    ...{ routes, authenticator, perform, rateLimiter: latch, newId, log },
    resources: publicResources({
      metrics,
      publicKeys: [key.publicJwk],
      events: asyncApiDocument(services.settings),
      protectedResource: () => protectedResource(publicUrl(), null),
      signIn: { services, cookies: authenticator.cookies, provider: null, defaultReturnTo: '/console', log },
      reference,
    }),
    addressOf: clientAddress([]),
    observe: (route, method, status, took) => {
      observed.push({ route, status });
      metrics.recordRequest(route, method, status, took);
    },
    draining: () => state.draining,
    mounts: { mcp: mcp.listener, sse: mcp.listener, graphql: graphql.listener },
    ...more,
  });
  const server = createServer(serverLimits, listener);
  handleProtocolErrors(server, newId);
  server.on('upgrade', (request, socket, head) => {
    if (request.url?.split('?', 1)[0] === '/graphql') graphql.upgrade(request, socket, head);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  settings.apiBaseUrl = `${url}/v1`;

  const token: HttpService['token'] = (sub, rest = {}) => signToken(key, { sub, jti: v7(), ...rest }, clock.now());
  const call: HttpService['call'] = async (method, path, sent = {}) => {
    const raw = typeof sent.body === 'string' || sent.body instanceof Uint8Array;
    const headers = {
      ...(sent.body !== undefined && { 'content-type': 'application/json' }),
      ...(sent.token !== undefined && { authorization: `Bearer ${sent.token}` }),
      ...sent.headers,
    };
    const body = raw ? (sent.body as string | Uint8Array) : JSON.stringify(sent.body);
    const answer = await httpRequest(url + path, method, headers, body);
    record({ method, path, headers, body }, answer);
    const { status, text } = answer;
    const isJson = /\bjson\b/.test(answer.headers.get('content-type') ?? '') && text !== '';
    const received = { status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
    if (isJson) assertDocumented(method, path, received);
    return received;
  };

  const updateUser: HttpService['updateUser'] = async (userId, changes) => {
    await change(userId, changes);
    users.invalidate(userId);
  };

  return {
    replaceSealer(next) {
      sealer = next;
    },
    ...{
      url,
      store,
      clock,
      runtime,
      services,
      cognition,
      perform,
      identity,
      rateLimiter: latch,
      flags,
      key,
      server,
      mcp,
      graphql,
      errors,
      observed,
      state,
    },
    ...{ token, call, updateUser },
    async owner(name = 'A tenant') {
      const userToken = await token(v7());
      const created = await call('POST', '/v1/tenant/register', { token: userToken, body: { tenant_name: name } });
      if (created.status !== 201) throw new Error(JSON.stringify(created.body));
      return { token: userToken, userId: created.body.user_id, tenantId: created.body.tenant_id };
    },
    async member(tenantId, role) {
      const memberToken = await token(v7());
      const { body } = await call('GET', '/v1/auth/me', { token: memberToken });
      await updateUser(body.user.id, { tenantId, role });
      return memberToken;
    },
    async close() {
      await mcp.close();
      await graphql.close();
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
      cognition.close();
      await Promise.all([runtime.stop(), callers.apiKeys.close(), callers.userSessions.close()]);
      await audit.close();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
