import { Runtime } from '../actors/runtime.ts';
import type { Config } from '../config.ts';
import type { Clock } from '../domain/clock.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import { masterKeyIds } from '../domain/sealing.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import { Metrics } from '../edges/shared/metrics.ts';
import { currentDefinition, definitionFor } from '../machines/versions.ts';
import { NodeLoadMeter } from '../services/node-load.ts';
import { SoleNode } from '../services/sole-node.ts';
import { StoreLiveness } from '../services/store-liveness.ts';
import type { NodeAdministration } from '../store/contract/cluster.ts';
import type { RateLimiter } from '../store/contract/rate-limiter.ts';
import type { ActiveLock, Cache, Store } from '../store/contract.ts';
import type { NodeInfo } from '../store/lock/node-registration.ts';
import { openCache, openRateLimiter, openStoreAndDatabase } from '../store/open.ts';
import { SCHEMA_LEVEL } from '../store/postgres/migrations.ts';
import type { PgliteThread } from '../store/postgres/pglite/thread.ts';
import type { WaitingContracts } from '../store/postgres/waiting-contracts.ts';
import type { ActiveNodes } from './active-nodes.ts';
import type { ClockMonitor } from './clock-monitor.ts';
import { makeIds } from './ids.ts';
import { checkMasterKeys, masterKeysOf } from './master-keys.ts';
import { joinCluster, type NodeMembership } from './node-membership.ts';
import { openedWith } from './opened-with.ts';
import type { StartOptions } from './start-options.ts';
import type { Tracing } from './tracing.ts';

/** The store, the actor runtime, and the parts on which all services depend. */
export interface Core {
  clock: Clock;
  clockMonitor: ClockMonitor;
  /** Null if this is the only active node. */
  nodes: ActiveNodes | null;
  newId(): Uuid;
  lease: Lease;
  log: Log;
  limits: NonNullable<StartOptions['limits']>;
  /** `host:port` that this node announces to the others; null: that of its listener. */
  link: string | null;
  store: Store;
  /** Migrations that are applied when no node of an older build is alive. */
  contracts: WaitingContracts;
  cache: Cache;
  rates: RateLimiter;
  liveness: StoreLiveness;
  metrics: Metrics;
  /** Null without an OTLP receiver. */
  tracing: Tracing | null;
  runtime: Runtime;
  /** Null for a process that has the database to itself. */
  membership: NodeMembership | null;
  /** The load of this process. */
  loadMeter: NodeLoadMeter;
  /** Milliseconds since the lease was renewed; null without a lease. */
  leaseAgeMs(): Milliseconds | null;
  nodeAdministration: NodeAdministration;
}

export type CoreOptions = Pick<StartOptions, 'log' | 'limits' | 'link' | 'wrapStore'> & {
  clockMonitor: ClockMonitor;
  lock: ActiveLock;
  /** The thread of the embedded database, which may still be starting. */
  thread: PgliteThread | undefined;
  /** Milliseconds since the lease was renewed; null without a lease. */
  leaseAgeMs(): Milliseconds | null;
  node: NodeInfo;
  /** Aborts the start. */
  signal: AbortSignal;
};

/** Opens the store, the cache and the rate limits, and creates the runtime, which is not started. */
export async function composeCore(config: Config, options: CoreOptions): Promise<Core> {
  const { clockMonitor, lock, log, signal, limits = {}, link = null } = options;
  const { clock } = clockMonitor;
  const { lease } = lock;
  const newId = makeIds(clock);
  const membership = joinCluster(config, lock, log);
  const nodes = membership?.nodes ?? null;
  const opening = openStoreAndDatabase(config, {
    ...{ lock, log, signal, thread: options.thread, rowSecurity: config.rowSecurity },
    generation: membership ? () => membership.shards.generation : undefined,
    check: ({ sealedValues }) =>
      checkMasterKeys((known) => sealedValues.withOtherKeys(known, clock.now()), config.keys),
  });
  const openingTracing = config.otlpEndpoint === null ? null : openTracing(config.otlpEndpoint);
  const { store: opened, database, contracts } = await openedWith(opening, Promise.resolve(openingTracing));
  const store = options.wrapStore?.(opened) ?? opened;
  const messagesUrl = nodes === null ? null : config.databaseUrl;
  const openingCache = openCache(config, lease, { database, messagesUrl });
  await openedWith(Promise.resolve({ store }), openingCache);
  const cache = await openingCache;
  const rates = openRateLimiter(config, clock, lease, nodes && (() => Math.max(1, nodes.live().size)));
  const metrics = new Metrics();
  const tracing = await openingTracing;
  const runtime = new Runtime({
    ...{ store, clock, lease, log },
    definitions: (kind, version) => (version === undefined ? currentDefinition(kind) : definitionFor(kind, version)),
    meter: tracing?.traceMeter(metrics.runtime) ?? metrics.runtime,
    limits: { liveActors: config.maxLiveActors, ...limits.runtime },
    ...(membership && { shards: membership.shards }),
  });
  const liveness = new StoreLiveness(store);
  const stores = { store, cache, rates, liveness };
  const loadMeter = new NodeLoadMeter({
    liveActors: () => runtime.actors.liveCount,
    deviceSessions: () => runtime.sessions.count(),
  });
  const nodeAdministration = membership?.cluster ?? soleNode(config, options, loadMeter);
  return {
    ...{ clock, clockMonitor, nodes, newId, lease, log, limits, ...stores, metrics, tracing, runtime, membership },
    ...{ loadMeter, nodeAdministration, link, contracts, leaseAgeMs: options.leaseAgeMs },
  };
}

const soleNode = (
  { keys }: Config,
  { lock, node, leaseAgeMs, clockMonitor }: CoreOptions,
  loadMeter: NodeLoadMeter,
): SoleNode =>
  new SoleNode({
    masterKeys: masterKeyIds(masterKeysOf(keys)),
    ...{ id: lock.node, ...node, schemaLevel: SCHEMA_LEVEL, startedAt: clockMonitor.clock.now(), leaseAgeMs },
    load: () => loadMeter.read(),
  });

/** Loads the tracing modules on demand, because they cost memory and startup time. */
async function openTracing(endpoint: string): Promise<Tracing> {
  const { Tracing } = await import('./tracing.ts');
  return new Tracing(endpoint);
}
