import type { RequestListener } from 'node:http';
import { type Config, mqttUrl } from '../config.ts';
import { type SizeReporter, sumSizes } from '../domain/collection-sizes.ts';
import { spanLength } from '../domain/json/span.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import type { CognitiveLayer } from '../operations/cognition/cognition.ts';
import type { OperationSettings, Services } from '../operations/operation.ts';
import { HistoryCompaction } from '../services/history-compaction.ts';
import { AuditSealing } from './audit-sealing.ts';
import { type CoreOptions, composeCore } from './compose-core.ts';
import { composeHttpEdges, type EdgeParts, type HttpEdges, openMqttEdge } from './compose-edges.ts';
import { composeRequestHandling, type RequestHandling } from './compose-request-handling.ts';
import { composeCognition, composeServices, type LaterParts } from './compose-services.ts';
import { ContractMigrations } from './contract-migrations.ts';
import { startFlagRefresh } from './flag-refresh.ts';
import { registerGauges } from './gauges.ts';
import { HistoryUpkeep } from './history-upkeep.ts';
import type { NodeCluster } from './node-cluster.ts';
import { Pruning } from './pruning.ts';
import type { StartOptions } from './start-options.ts';

export type UpgradeHandler = MqttEdge['upgrade'];

/** After a start devices reconnect; then the modules of the deferred edges are loaded, before their first requests. */
const LOAD_EDGES_MS: Milliseconds = 5_000;

type ActiveServiceOptions = CoreOptions &
  Pick<StartOptions, 'onAssembled'> &
  Pick<EdgeParts, 'draining'> &
  Pick<LaterParts, 'stopping'>;

interface ActiveServiceParts extends EdgeParts {
  cognition: CognitiveLayer;
  edges: HttpEdges;
  /** The module of a node that shares the database with others; null for a process that has it to itself. */
  cluster: typeof import('./node-cluster.ts') | null;
}

/** Composes the active service; its listeners are not open yet. */
export async function composeService(config: Config, options: ActiveServiceOptions): Promise<ActiveService> {
  const core = await composeCore(config, options);
  const composed = await composeServices(config, core, {
    identity: () => requests.identity,
    verifyLogoutToken: () => requests.verifyLogout,
    mqtt: () => service.mqtt,
    stopping: options.stopping,
  });
  const cognition = composeCognition(core, composed);
  options.onAssembled?.(composed.services);
  const requests: RequestHandling = composeRequestHandling(config, core, composed);
  const parts: EdgeParts = { config, core, composed, requests, draining: options.draining };
  const cluster = config.node === null ? null : await import('./node-cluster.ts');
  const service: ActiveService = new ActiveService({ ...parts, cognition, edges: composeHttpEdges(parts), cluster });
  return service;
}

/** The parts that only the active process has: opens and closes them in order. */
export class ActiveService {
  readonly settings: OperationSettings;
  readonly listener: RequestListener;
  readonly upgrade: UpgradeHandler;
  readonly #parts: ActiveServiceParts;
  readonly #pruning: Pruning;
  readonly #compaction: HistoryCompaction;
  readonly #history: HistoryUpkeep;
  readonly #sealing: AuditSealing;
  readonly #contracts: ContractMigrations;
  readonly #flagRefresh: NodeJS.Timeout;
  /** Null for a process that has the database to itself. */
  readonly #nodeCluster: NodeCluster | null;
  #mqtt: MqttEdge | null = null;
  #loadTimer: NodeJS.Timeout | undefined;
  #aborted = false;

  constructor(parts: ActiveServiceParts) {
    const { config, core, composed, edges } = parts;
    this.#parts = parts;
    this.settings = composed.services.settings;
    const localUpgrade: UpgradeHandler = (...upgrade) => this.#upgradeHere(...upgrade);
    this.#nodeCluster = this.#composeCluster(localUpgrade);
    this.listener = this.#nodeCluster?.listener ?? edges.listener;
    this.upgrade = this.#nodeCluster?.upgrade ?? localUpgrade;
    const isLeader = (): boolean => this.#nodeCluster?.coordinator.leader ?? true;
    const { actors, store, clock, log } = composed.services;
    const shards = () => core.membership?.shards.list ?? null;
    this.#compaction = new HistoryCompaction({ store, clock, log, shards, limits: core.limits.history });
    actors.subscribe('samples.dropped', ({ samples }) => this.#compaction.recordDropped(samples));
    actors.subscribe('device.state', ({ deviceId, tenantId, report, reportText }) => {
      const bytes = reportText === undefined ? Buffer.byteLength(JSON.stringify(report)) : spanLength(reportText);
      this.#compaction.recordReport(deviceId, tenantId, bytes);
    });
    actors.subscribe('history.imported', ({ deviceId, tenantId }) => this.#compaction.recordImport(deviceId, tenantId));
    this.#history = new HistoryUpkeep({
      ...{ history: store.history, compaction: this.#compaction, retention: config.historyRetention },
      ...{ clock, log, isLeader, timing: core.limits.history },
    });
    this.#pruning = new Pruning(config, {
      ...composed.services,
      dropHistory: (now) => this.#history.dropExpired(now),
      isClockTrusted: () => core.clockMonitor.untrustedOffsets() === null,
      isLeader,
    });
    this.#sealing = new AuditSealing({ ...composed.services, isLeader });
    this.#contracts = new ContractMigrations({ contracts: core.contracts, log: core.log, isLeader });
    this.#registerGauges();
    this.#flagRefresh = startFlagRefresh(composed.flags, core.log);
  }

  /** Null until `open` has opened it. */
  get mqtt(): MqttEdge | null {
    return this.#mqtt;
  }

  #upgradeHere(...[request, socket, head]: Parameters<UpgradeHandler>): void {
    const { graphql, sockets } = this.#parts.edges;
    const [path] = (request.url ?? '/').split('?', 1);
    if (path === '/mqtt' && this.#mqtt) this.#mqtt.upgrade(request, socket, head);
    else if (path === '/graphql') graphql.upgrade(request, socket, head);
    else sockets.upgrade(request, socket, head);
  }

  #composeCluster(upgrade: UpgradeHandler): NodeCluster | null {
    const { core, config, cluster } = this.#parts;
    if (core.membership === null || config.node === null || cluster === null) return null;
    return new cluster.NodeCluster({
      ...this.#parts,
      ...{ membership: core.membership, address: config.node, upgrade },
      mqtt: () => this.#mqtt,
    });
  }

  /**
   * Hands over the shards of this node, if another node can take them; requests are still served or forwarded. Null for a
   * process that has the database to itself.
   */
  handOver(): Promise<void> | null {
    return this.#nodeCluster?.drain() ?? null;
  }

  /** Recovers from a crash of the previous process, then opens the listeners. */
  async open(url: string): Promise<void> {
    const { config, core, composed, cognition } = this.#parts;
    if (!this.#aborted) await core.runtime.start();
    if (this.#aborted) throw new Error('the active lock was lost during the start');
    this.settings.apiBaseUrl = `${config.publicUrl ?? url}/v1`;
    this.#mqtt = await openMqttEdge(this.#parts, this.#nodeCluster?.routeMqtt ?? null);
    this.settings.mqttUrl = config.mqttPublicUrl ?? mqttUrl(config, this.#mqtt, config.publicUrl ?? url);
    if (!this.#aborted) await this.#nodeCluster?.open();
    if (this.#aborted) this.#mqtt.abort();
    else {
      composed.sidecar.open(cognition, composed.services);
      this.#loadTimer = setTimeout(() => void this.#loadEdges(), LOAD_EDGES_MS).unref();
    }
  }

  /** One after another, because loading them occupies the process. */
  async #loadEdges(): Promise<void> {
    const { graphql, mcp } = this.#parts.edges;
    for (const edge of [graphql, mcp]) await edge.load();
  }

  /** `answered` settles when all requests in flight are answered, or their time limit has passed. */
  async close(answered: Promise<void>): Promise<void> {
    const { core, composed, edges } = this.#parts;
    const { runtime, store, cache, rates, tracing } = core;
    this.#stopBackgroundWork();
    const closing = [
      this.#nodeCluster?.close(),
      edges.sockets.close(),
      edges.mcp.close(),
      edges.graphql.close(),
      this.#mqtt?.close(),
    ];
    await Promise.all([...closing, composed.sidecar.close(), answered]);
    await Promise.all([runtime.stop(), composed.callers.apiKeys.close(), composed.callers.userSessions.close()]);
    await Promise.all([composed.audit.close(), this.#contracts.stop(), this.#sealing.stop()]);
    await this.#history.stop();
    await composed.callers.invalidations.close();
    // The cache may use the store's database.
    await Promise.all([cache.close(), rates.close()]);
    await store.close();
    await tracing?.close();
  }

  /** Stops immediately: no further writes, no further messages. */
  abort(): void {
    const { core, composed, edges } = this.#parts;
    this.#aborted = true;
    this.#stopBackgroundWork();
    core.runtime.halt();
    this.#nodeCluster?.abort();
    composed.callers.apiKeys.discardPending();
    composed.callers.userSessions.discardPending();
    void composed.callers.invalidations.close();
    this.#mqtt?.abort();
    composed.sidecar.abort();
    void edges.sockets.close();
    void edges.mcp.close();
    void edges.graphql.close();
  }

  #stopBackgroundWork(): void {
    this.#pruning.stop();
    void this.#sealing.stop();
    void this.#history.stop();
    void this.#contracts.stop();
    clearTimeout(this.#loadTimer);
    clearInterval(this.#flagRefresh);
    this.#parts.cognition.close();
  }

  #registerGauges(): void {
    const { core, composed, requests, cognition, edges } = this.#parts;
    const { metrics, runtime, tracing, clockMonitor } = core;
    const { sockets, mcp, graphql } = edges;
    const { services, sidecar } = composed;
    const { identity, idempotencyKeys } = requests;
    registerGauges(metrics, runtime, {
      ...{ mqtt: () => this.#mqtt, sockets, mcp, graphql, services, pruning: this.#pruning },
      history: this.#compaction,
      waitingMigrations: () => this.#contracts.waiting,
      clockOffsets: clockMonitor.offsets,
      coordinator: this.#nodeCluster?.coordinator ?? null,
      collections: [
        ...[
          this.#compaction,
          runtime,
          idempotencyKeys,
          cognition,
          identity,
          sockets,
          mcp,
          graphql,
          sidecar,
          ...sizedServices(services),
        ],
        { sizes: () => sumSizes([this.#mqtt, tracing, this.#nodeCluster].filter((part) => part != null)) },
      ],
    });
  }
}

/** The services with collections whose sizes are reported as metrics. */
const sizedServices = (services: Services): SizeReporter[] => [
  ...[services.store, services.cache, services.rates, services.deviceActivity, services.manifests, services.artifacts],
  ...[services.locks, services.audit, services.auditExports, services.historyExports, services.historyQueries],
  ...[services.apiKeys, services.agentTokens, services.users, services.revocations],
  ...[services.invalidations, services.cookieSessions, services.userSessions],
];
