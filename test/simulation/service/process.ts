import type { Packet } from 'mqtt-packet';
import { Runtime } from '../../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../../src/actors/runtime-limits.ts';
import { defaultHistoryRetention } from '../../../src/domain/history/retention.ts';
import type { Lease } from '../../../src/domain/lease.ts';
import type { Log } from '../../../src/domain/log.ts';
import { defaultQuotas } from '../../../src/domain/quotas.ts';
import { makeSealer } from '../../../src/domain/sealing.ts';
import { makeUrlSigner } from '../../../src/domain/signed-url.ts';
import { MqttSessionLayer } from '../../../src/edges/mqtt/edge.ts';
import { fixedRates, makeRequestRateLimiter } from '../../../src/edges/shared/rate-limiter.ts';
import type { ActorRef } from '../../../src/machines/outputs.ts';
import { currentDefinition, definitionFor } from '../../../src/machines/versions.ts';
import { loadCallerServices } from '../../../src/main/caller-services.ts';
import type { ClockMonitor } from '../../../src/main/clock-monitor.ts';
import { Pruning } from '../../../src/main/pruning.ts';
import { makeSignInServices } from '../../../src/main/sign-in-services.ts';
import { plannerTimeoutResolver } from '../../../src/operations/cognition/planner-timeout.ts';
import type { Services } from '../../../src/operations/operation.ts';
import { makePerform, type Perform } from '../../../src/operations/perform.ts';
import { planStepResolver, planStepSyncResolver } from '../../../src/operations/plans/plan-step-resolver.ts';
import { makeArtifacts } from '../../../src/services/artifacts.ts';
import { AuditChain } from '../../../src/services/audit-chain.ts';
import { AuditWriter } from '../../../src/services/audit-writer.ts';
import { ConcurrencyLimiter } from '../../../src/services/concurrency-limiter.ts';
import { DeviceActivityLog } from '../../../src/services/device-activity-log.ts';
import { loadFlags } from '../../../src/services/flags.ts';
import { Health } from '../../../src/services/health.ts';
import { KeyedLocks } from '../../../src/services/keyed-locks.ts';
import { ManifestCache } from '../../../src/services/manifest-cache.ts';
import { noSidecar } from '../../../src/services/sidecar.ts';
import { StoreLiveness } from '../../../src/services/store-liveness.ts';
import { MemoryRateLimiter } from '../../../src/store/cache/memory-rate-limiter.ts';
import type { ArtifactFiles } from '../../../src/store/contract/artifact-files.ts';
import type { Store } from '../../../src/store/contract.ts';
import { MemoryCache } from '../../support/memory-cache.ts';
import { MemoryNodes } from '../../support/memory-nodes.ts';
import { checkedRates, DeviceRateInvariant } from '../invariants/rates.ts';
import type { Network } from '../network/link.ts';
import type { Owner } from '../world/scheduler.ts';
import type { World } from '../world/world.ts';
import type { Keys } from './fixtures.ts';
import { SimulatedHistory } from './history.ts';
import { MqttListener } from './mqtt-listener.ts';

export interface ProcessParts {
  world: World;
  owner: Owner;
  store: Store;
  keys: Keys;
  network: Network;
  limits: Partial<RuntimeLimits>;
  /** Requests per minute of the tenant; 0 is unlimited. */
  requestsPerMinute: number;
  /** Messages per second of a device, and their burst. */
  deviceRate: { perSecond: number; burst: number };
  time: ClockMonitor;
  newId(): string;
  /** An MQTT packet is sent to a client. */
  sending(packet: Packet): void;
  /** A committed transition of an actor is released. */
  released(ref: ActorRef, version: number, event: string): void;
  lease: Lease;
  log: Log;
}

/** The active service, composed as in `main/active-service.ts`, without sockets: HTTP requests call `perform`. */
export interface Service {
  services: Services;
  runtime: Runtime;
  perform: Perform;
  rateLimiter: ReturnType<typeof makeRequestRateLimiter>;
  mqtt: MqttListener;
  /** Drains: finishes work in progress. */
  stop(): Promise<void>;
  /** The lease is lost: starts nothing more. */
  abort(): void;
}

const RETENTION_DAYS = { commands: 30, journal: 30 };

/** Loads pending work from the store, and serves. */
export async function startService(parts: ProcessParts): Promise<Service> {
  const { world, store, keys, log, newId, owner, network, time } = parts;
  const { clock } = time;
  const cache = new MemoryCache(clock);
  const runtime = new Runtime({
    store,
    definitions: (kind, version) => (version === undefined ? currentDefinition(kind) : definitionFor(kind, version)),
    clock,
    lease: parts.lease,
    log,
    limits: parts.limits,
  });
  runtime.actors.subscribeTransitions(({ ref, version }, { type }) => parts.released(ref, version, type));
  const liveness = new StoreLiveness(store);
  const callers = await loadCallerServices({ store, cache, clock, log, newId, liveness });
  const flags = await loadFlags(store.administration);
  const sealer = makeSealer({ current: keys.master });
  const settings: Services['settings'] = {
    sessionMaxAgeS: 86_400,
    apiBaseUrl: 'http://service/v1',
    mqttUrl: 'mqtt://service',
    betaDeviceLimit: 0,
    publicCounts: true,
    defaultTier: 'free',
    rateLimits: { free: parts.requestsPerMinute },
    ...{ credentialRateLimits: {}, addressRateLimit: 0, quotas: defaultQuotas },
    ...{ historyRetention: defaultHistoryRetention, historyBytes: null, commandRetentionDays: 90 },
    cloudPublicKeys: [],
    changelog: [],
  };
  const audit = new AuditWriter({ store, clock, newId, log });
  const services: Services = {
    ...makeSignInServices({
      cache,
      clock,
      invalidations: callers.invalidations,
      sealer,
      tokenKey: keys.token,
      identity: noTokens,
    }),
    ...{ store, cache, clock, newId, newTenantId: newId, log, settings, audit },
    auditChain: new AuditChain({ store, clock, log, retentionDays: RETENTION_DAYS.journal }),
    auditExports: new ConcurrencyLimiter('audit_exports'),
    historyExports: new ConcurrencyLimiter('history_exports'),
    historyQueries: new ConcurrencyLimiter('history_queries'),
    ...callers,
    rates: checkedRates(world, clock, new MemoryRateLimiter(clock)),
    actors: runtime.actors,
    sessions: runtime.sessions,
    deviceActivity: new DeviceActivityLog(clock),
    manifests: new ManifestCache(store.devices),
    artifacts: makeArtifacts({
      store,
      settings,
      clock,
      newId,
      log,
      files: noFiles,
      signer: makeUrlSigner({ current: keys.master }),
    }),
    locks: new KeyedLocks(),
    masterKeys: sealer,
    seal: sealer.seal,
    open: sealer.open,
    flags: () => flags.current(),
    setFlag: flags.set,
    sidecar: { ...noSidecar },
    nodes: new MemoryNodes(),
    health: new Health({
      ...{ store, cache, clock, redis: false },
      mqtt: () => 'operational',
      stopping: () => false,
      clockOffsets: time.untrustedOffsets,
      worker: () => (runtime.actors.groupCommit.paused ? 'degraded' : 'operational'),
    }),
  };
  runtime.outbox.registerResolver('plan.ask', planStepResolver(services), planStepSyncResolver(services));
  runtime.outbox.registerResolver('plan.unheard', plannerTimeoutResolver(services));
  await runtime.start();
  const edge = new MqttSessionLayer({
    services,
    settings: { host: '', port: 0, tls: null, maxConnections: 1_000, deviceRate: parts.deviceRate },
    signingKeys: { current: keys.deviceSigning, previous: null },
    watches: (deviceId) => runtime.watches.forDevice(deviceId),
    authenticateUser: async () => null,
    addressOf: () => '',
    isEncrypted: () => false,
    lease: parts.lease,
    log,
  });
  const deviceRates = new DeviceRateInvariant(world, parts.deviceRate);
  const started = await edge.start();
  const history = new SimulatedHistory(runtime, services, parts);
  const pruning = new Pruning(
    { retentionDays: RETENTION_DAYS },
    {
      ...services,
      dropHistory: history.dropExpired,
      isClockTrusted: () => time.untrustedOffsets() === null,
      isLeader: () => true,
    },
  );
  return {
    services,
    runtime,
    perform: makePerform(services, liveness),
    rateLimiter: makeRequestRateLimiter(services, liveness, fixedRates),
    mqtt: new MqttListener({
      ...{ world, owner, network },
      accept: started.accept,
      sending: parts.sending,
      lease: parts.lease,
      reads: (deviceId) => deviceRates.read(deviceId),
    }),
    async stop() {
      pruning.stop();
      const idle = history.stop();
      await started.drain();
      await Promise.all([runtime.stop(), callers.apiKeys.close(), callers.userSessions.close()]);
      await audit.close();
      await idle;
      time.stop();
    },
    abort() {
      pruning.stop();
      void history.stop();
      runtime.halt();
      callers.apiKeys.discardPending();
      callers.userSessions.discardPending();
      started.abort();
    },
  };
}

const noTokens = (): never => {
  throw new Error('requests of the simulation carry no tokens');
};

const noFiles: ArtifactFiles = {
  write: () => Promise.reject(new Error('the simulation uploads nothing')),
  open: async () => null,
  remove: async () => {},
};
