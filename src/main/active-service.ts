import { readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createRuntime } from '../actors/runtime.ts';
import type { RuntimeLimits } from '../actors/runtime-limits.ts';
import { type Config, mqttUrl } from '../config.ts';
import { parseChangelog } from '../domain/changelog.ts';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import { makeSealer } from '../domain/sealing.ts';
import { makeGraphql } from '../edges/graphql/edge.ts';
import type { SidecarLimits } from '../edges/grpc/sidecar-limits.ts';
import { McpEdge } from '../edges/mcp/edge.ts';
import type { SessionLimits } from '../edges/mcp/session-registry.ts';
import { type MqttEdge, openMqtt } from '../edges/mqtt/edge.ts';
import type { MqttLimits } from '../edges/mqtt/mqtt-limits.ts';
import { makeMqttMeter } from '../edges/mqtt/mqtt-metrics.ts';
import { userAuthentication } from '../edges/mqtt/user-session.ts';
import { makeRestListener } from '../edges/rest/listener.ts';
import { publicResources } from '../edges/rest/public-resources.ts';
import { routes } from '../edges/rest/routes.ts';
import { apiKeyVerifier } from '../edges/shared/api-key-verifier.ts';
import { clientAddress } from '../edges/shared/client-address.ts';
import { makeHttpAuthenticator } from '../edges/shared/http-authenticator.ts';
import { Identity, internalTokenVerifier } from '../edges/shared/identity.ts';
import { Metrics } from '../edges/shared/metrics.ts';
import { protectedResource } from '../edges/shared/protected-resource.ts';
import { type FixedRates, fixedRates, makeRateLimiter } from '../edges/shared/rate-limiter.ts';
import { referencePage } from '../edges/shared/reference-pages.ts';
import { actorStream } from '../edges/websocket/actor-stream.ts';
import { WebSocketEdge } from '../edges/websocket/edge.ts';
import { stateStream } from '../edges/websocket/state-stream.ts';
import { currentDefinition, definitionFor } from '../machines/versions.ts';
import { CognitiveLayer } from '../operations/cognition/cognition.ts';
import { plannerTimeoutResolver } from '../operations/cognition/planner-timeout.ts';
import { IdempotencyKeys } from '../operations/idempotency.ts';
import type { Services, Settings } from '../operations/operation.ts';
import { makePerform } from '../operations/perform.ts';
import { planStepResolver, planStepSyncResolver } from '../operations/plans/plan-step-resolver.ts';
import { signingKey } from '../protocol/signature.ts';
import { AuditWriter } from '../services/audit-writer.ts';
import { DeviceActivityLog } from '../services/device-activity-log.ts';
import { loadFlags } from '../services/flags.ts';
import { makeHealth } from '../services/health.ts';
import { Locks } from '../services/locks.ts';
import { ManifestCache } from '../services/manifest-cache.ts';
import { StoreLiveness } from '../services/store-liveness.ts';
import { readTokenKey, type TokenKey } from '../services/tokens.ts';
import type { ActiveLock, Store } from '../store/contract.ts';
import type { LockTiming } from '../store/lock/lock-timing.ts';
import { openCache, openRateLimiter, openStore } from '../store/open.ts';
import { openArtifacts } from './artifacts.ts';
import { asyncApiDocument } from './asyncapi-document.ts';
import { consoleRoutes, referenceFiles } from './built-pages.ts';
import { loadCallerServices } from './caller-services.ts';
import type { ClockMonitor } from './clock-monitor.ts';
import { startFlagRefresh } from './flag-refresh.ts';
import { registerGauges } from './gauges.ts';
import { makeIds } from './ids.ts';
import { Pruning } from './pruning.ts';
import { makeSidecarRunner } from './sidecar.ts';
import { makeIdentityProvider, makeSignInServices } from './sign-in-services.ts';

export interface StartOptions {
  log: Log;
  /** Replaces the service clock that follows the database and the host. */
  clock?: Clock;
  /** The host's wall clock, in epoch milliseconds; `Date.now` by default. */
  wallClock?(): number;
  /** Called once when the service cannot continue: the active lock was lost, or the start failed. */
  onFatal?(reason: string): void;
  /** Overrides of the default limits. */
  limits?: {
    runtime?: Partial<RuntimeLimits>;
    mqtt?: Partial<MqttLimits>;
    rates?: Partial<FixedRates>;
    mcp?: Partial<SessionLimits>;
    sidecar?: Partial<SidecarLimits>;
    lock?: Partial<LockTiming>;
    /** Milliseconds between two reads of the database's clock by a standby. */
    clockCheckMs?: number;
  };
  /** Wraps the store, so that tests can inject failures. */
  wrapStore?(store: Store): Store;
  /** Receives the services before any listener opens, for programs that embed the service. */
  onAssembled?(services: Services): void;
}

export type UpgradeHandler = MqttEdge['upgrade'];

/** The parts that only the active process has. */
export interface ActiveService {
  settings: Settings;
  listener: RequestListener;
  upgrade: UpgradeHandler;
  /** Recovers from a crash of the previous process, then opens the listeners. */
  open(url: string): Promise<void>;
  /** `answered` settles when all requests in flight are answered, or their time limit has passed. */
  close(answered: Promise<void>): Promise<void>;
  /** Stops immediately: no further writes, no further messages. */
  abort(): void;
}

export async function composeService(
  config: Config,
  {
    time,
    lock,
    log,
    limits,
    wrapStore,
    onAssembled,
    draining,
  }: StartOptions & { time: ClockMonitor; lock: ActiveLock; draining(): boolean },
): Promise<ActiveService> {
  const { clock } = time;
  const newId = makeIds(clock);
  const opened = await openStore(config, lock);
  const store = wrapStore?.(opened) ?? opened;
  const cache = await openCache(config, clock, lock.lease);
  const rates = openRateLimiter(config, clock, lock.lease);
  const metrics = new Metrics();
  // Loaded on demand, because the tracing modules cost memory and startup time.
  const tracing = config.otlpEndpoint === null ? null : new (await import('./tracing.ts')).Tracing(config.otlpEndpoint);
  const runtime = createRuntime({
    store,
    definitions: (kind, version) => (version === undefined ? currentDefinition(kind) : definitionFor(kind, version)),
    clock,
    lease: lock.lease,
    log,
    meter: tracing?.traceMeter(metrics.runtime) ?? metrics.runtime,
    ...(limits?.runtime && { limits: limits.runtime }),
  });
  const deviceKey = signingKey('ed25519', seedOf(config.keys.deviceSigning));
  const tokenKey = await tokenKeyOf(config);
  const liveness = new StoreLiveness(store);
  const callers = await loadCallerServices({ store, cache, clock, log, newId, liveness });
  const flags = await loadFlags(store.administration);
  const settings: Settings = {
    apiBaseUrl: '',
    mqttUrl: '',
    betaDeviceLimit: config.betaDeviceLimit,
    defaultTier: config.defaultTier,
    sessionMaxAgeS: config.sessionMaxAgeS,
    rateLimits: config.rateLimits,
    cloudPublicKeys: [config.keys.deviceSigning.publicKey],
    changelog: parseChangelog(readFileSync(new URL('../../CHANGELOG.md', import.meta.url), 'utf8')),
  };
  let mqtt: MqttEdge | null = null;
  let aborted = false;
  const sealer = makeSealer(config.keys.master.export(), config.keys.masterPrevious?.export());
  const audit = new AuditWriter({
    ...{ store, clock, newId, log },
    dropped: metrics.labelledCounter(
      'audit_dropped',
      'Refused attempts that were not written to the audit log',
      'outcome',
    ),
  });
  const sidecar = makeSidecarRunner(config, { clock, lease: lock.lease, log, metrics, limits: limits?.sidecar });
  const services: Services = {
    ...makeSignInServices({ cache, clock, sealer, tokenKey, identity: () => identity }),
    store,
    cache,
    rates,
    actors: tracing?.traceActors(runtime.actors) ?? runtime.actors,
    sessions: runtime.sessions,
    deviceActivity: new DeviceActivityLog(clock),
    manifests: new ManifestCache(store.devices),
    artifacts: openArtifacts(config, { store, settings, clock, newId, log }),
    locks: new Locks(),
    audit,
    clock,
    newId,
    seal: sealer.seal,
    open: sealer.open,
    flags: () => flags.current(),
    setFlag: flags.set,
    ...callers,
    sidecar: sidecar.sidecar,
    health: makeHealth({
      store,
      cache,
      clock,
      redis: config.redisUrl !== null,
      mqtt: () => (mqtt === null ? 'degraded' : 'operational'),
      worker: () => (runtime.actors.groupCommit.paused ? 'degraded' : 'operational'),
      clockOffsets: time.untrustedOffsets,
    }),
    settings,
    log,
  };
  runtime.outbox.registerResolver('plan.ask', planStepResolver(services), planStepSyncResolver(services));
  runtime.outbox.registerResolver('plan.unheard', plannerTimeoutResolver(services));
  const cognition = new CognitiveLayer(services, flags);
  onAssembled?.(services);
  const rateLimiter = makeRateLimiter(services, liveness, { ...fixedRates, ...limits?.rates });
  const clientAddressOf = clientAddress(config.trustedProxies);
  const redirectUri = () => `${settings.apiBaseUrl}/auth/callback`;
  const identityProvider = makeIdentityProvider(config.oidc, { sealer, clock, log, redirectUri });
  const identity = new Identity({
    ...callers,
    verifiers: [apiKeyVerifier(callers.apiKeys), internalTokenVerifier(tokenKey, clock), ...identityProvider.verifiers],
    rateLimiter,
    clock,
    newId,
  });
  const secure = config.tls !== null || config.publicUrl?.startsWith('https:') === true;
  const authenticator = makeHttpAuthenticator({ identity, services, secure });
  const sockets = new WebSocketEdge({
    ...{ services, identity, rateLimiter, addressOf: clientAddressOf },
    streams: [stateStream(services), actorStream(services)],
  });
  const idempotencyKeys = new IdempotencyKeys(services);
  const perform = makePerform(services, liveness, idempotencyKeys);
  const publicUrl = () => settings.apiBaseUrl.slice(0, -'/v1'.length);
  const mcp = new McpEdge({
    ...{ services, perform, identity, rateLimiter, addressOf: clientAddressOf, publicUrl, log },
    host: config.host,
    observe: metrics.recordRequest,
    ...(limits?.mcp && { limits: limits.mcp }),
  });
  const reference = referenceFiles();
  const graphql = makeGraphql({
    ...{ services, identity, authenticator, rateLimiter, addressOf: clientAddressOf, perform, draining },
    production: config.production,
    explorer: () => referencePage(reference, 'graphql'),
    observe: metrics.recordRequest,
  });
  const pruning = new Pruning(config, { ...services, isClockTrusted: () => time.untrustedOffsets() === null });
  registerGauges(metrics, runtime, {
    ...{ mqtt: () => mqtt, sockets, mcp, graphql, services, clockOffsets: time.offsets, pruning },
    collections: [
      ...[runtime, idempotencyKeys, cognition, identity, sockets, mcp, graphql, sidecar, ...sizedServices(services)],
      { sizes: () => ({ ...mqtt?.sizes(), ...tracing?.sizes() }) },
    ],
  });
  const flagRefresh = startFlagRefresh(flags, log);
  return {
    settings,
    listener: makeRestListener({
      routes,
      resources: publicResources({
        metrics,
        publicKeys: [tokenKey.publicJwk],
        events: asyncApiDocument(settings),
        protectedResource: () => protectedResource(publicUrl(), config.oidc?.issuer ?? null),
        signIn: {
          services,
          cookies: authenticator.cookies,
          provider: identityProvider.signIn,
          defaultReturnTo: '/console',
          log,
        },
        reference,
      }),
      authenticator,
      perform,
      rateLimiter,
      publicUrl,
      newId,
      log,
      trustedProxies: config.trustedProxies,
      observe: metrics.recordRequest,
      ...(tracing && { trace: tracing.traceRequest }),
      draining,
      mounts: { mcp: mcp.listener, graphql: graphql.listener },
      consoleRoutes: consoleRoutes({
        ...{ rateLimiter, addressOf: clientAddressOf, log, provider: identityProvider.signIn !== null },
        prefix: () => new URL(settings.apiBaseUrl).pathname.replace(/\/v1$/, ''),
      }),
    }),
    upgrade(request, socket, head) {
      const [path] = (request.url ?? '/').split('?', 1);
      if (path === '/mqtt' && mqtt) mqtt.upgrade(request, socket, head);
      else if (path === '/graphql') graphql.upgrade(request, socket, head);
      else sockets.upgrade(request, socket, head);
    },
    async open(url) {
      if (!aborted) await runtime.start();
      if (aborted) throw new Error('the active lock was lost during the start');
      settings.apiBaseUrl = `${config.publicUrl ?? url}/v1`;
      mqtt = await openMqtt({
        services,
        settings: {
          host: config.host,
          port: config.mqttPort,
          tls: config.mqttTlsPort === null || config.tls === null ? null : { ...config.tls, port: config.mqttTlsPort },
          maxConnections: config.mqttMaxConnections,
          deviceRate: config.deviceRate,
        },
        signingKey: deviceKey,
        watches: (deviceId) => runtime.watches.forDevice(deviceId),
        lease: lock.lease,
        authenticateUser: userAuthentication(identity, newId),
        addressOf: clientAddressOf,
        log,
        meter: makeMqttMeter(metrics),
        ...(limits?.mqtt && { limits: limits.mqtt }),
      });
      settings.mqttUrl = config.mqttPublicUrl ?? mqttUrl(config, mqtt);
      if (aborted) mqtt.abort();
      else sidecar.open(cognition, services);
    },
    async close(answered) {
      pruning.stop();
      clearInterval(flagRefresh);
      cognition.close();
      const edges = [sockets.close(), mcp.close(), graphql.close(), mqtt?.close(), sidecar.close()];
      await Promise.all([...edges, answered]);
      await Promise.all([runtime.stop(), callers.apiKeys.close()]);
      await audit.close();
      await store.close();
      await Promise.all([cache.close(), rates.close()]);
      await tracing?.close();
    },
    abort() {
      aborted = true;
      pruning.stop();
      clearInterval(flagRefresh);
      cognition.close();
      runtime.halt();
      callers.apiKeys.discardPending();
      mqtt?.abort();
      sidecar.abort();
      void sockets.close();
      void mcp.close();
      void graphql.close();
    },
  };
}

/** The services with collections whose sizes are reported as metrics. */
const sizedServices = (services: Services): SizeReporter[] => [
  ...[services.store, services.cache, services.rates, services.deviceActivity, services.manifests, services.artifacts],
  ...[services.locks, services.audit, services.users, services.revocations, services.apiKeys, services.agentTokens],
  ...[services.invalidations, services.cookieSessions],
];

const tokenKeyOf = (config: Config): Promise<TokenKey> =>
  readTokenKey(config.keys.tokenSigning.privateKey.export({ format: 'jwk' }));

const seedOf = (pair: Config['keys']['deviceSigning']): string => pair.privateKey.export({ format: 'jwk' }).d as string;
