import { isSameStateValue } from '../actors/commit/unit-of-work.ts';
import type { Runtime } from '../actors/runtime.ts';
import { type SizeReporter, sumSizes } from '../domain/collection-sizes.ts';
import { SHARD_COUNT } from '../domain/shards.ts';
import type { Json } from '../domain/values.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import type { Metrics } from '../edges/shared/metrics.ts';
import type { CommandContext } from '../machines/command-types.ts';
import type { Services } from '../operations/operation.ts';
import type { ClockOffsets } from '../services/health.ts';
import type { HistoryCompaction } from '../services/history-compaction.ts';
import type { CoordinatorCounts, ShardCoordinator } from '../services/shard-coordinator.ts';
import type { HttpEdges } from './compose-edges.ts';
import type { Pruning } from './pruning.ts';

interface GaugeParts extends Pick<HttpEdges, 'sockets' | 'mcp' | 'graphql'> {
  mqtt(): MqttEdge | null;
  services: Pick<Services, 'cache' | 'flags' | 'store'>;
  /** All parts with collections that live as long as the process. */
  collections: readonly SizeReporter[];
  clockOffsets(): ClockOffsets;
  pruning: Pick<Pruning, 'suspended'>;
  history: Pick<HistoryCompaction, 'failures' | 'dropped' | 'merged' | 'oldestAgeMs' | 'sweepingMs'>;
  /** Number of migrations that wait for nodes of older builds to end. */
  waitingMigrations(): number;
  /** Null for a process that has the database to itself. */
  coordinator: Pick<
    ShardCoordinator,
    'counts' | 'liveNodes' | 'drainingNodes' | 'shardsNotOpen' | 'shardsUnreadable'
  > | null;
}

/** Registers the gauges, which are evaluated when metrics are scraped, and counts commands by status. */
export function registerGauges(metrics: Metrics, runtime: Runtime, parts: GaugeParts): void {
  registerRuntimeGauges(metrics, runtime);
  registerConnectionGauges(metrics, parts);
  registerServiceGauges(metrics, parts);
  registerClockGauges(metrics, parts);
  registerHistoryGauges(metrics, parts);
  registerNodeGauges(metrics, parts);
  countCommands(metrics, runtime);
}

function registerRuntimeGauges(metrics: Metrics, { actors, outbox, sessions, timers }: Runtime): void {
  metrics.labelledGauge('actors_live', 'Actors in memory, by kind', 'kind', () => actors.stats().byKind);
  metrics.gauge('turns_paused', '1 while commits are paused because the store is unavailable', () =>
    Number(actors.groupCommit.paused),
  );
  metrics.gauge('events_waiting', 'Events in all mailboxes', () => actors.stats().waiting);
  metrics.gauge('mailbox_deepest', 'Events in the fullest mailbox', () => actors.stats().deepestMailbox);
  metrics.gauge('outbox_age_seconds', 'Age of the oldest undelivered output', () => outbox.age() / 1000);
  metrics.gauge('timers_firing', 'Due timers whose event is not answered', () => timers.due);
  metrics.gauge('device_sessions', 'Open device sessions', () => sessions.count());
}

function registerConnectionGauges(metrics: Metrics, { mqtt, sockets, mcp, graphql }: GaugeParts): void {
  metrics.gauge('mqtt_connections_open', 'Open MQTT connections', () => mqtt()?.connections() ?? 0);
  metrics.gauge('websocket_connections_open', 'Open WebSocket connections', () => sockets.counts().connections);
  metrics.gauge(
    'graphql_connections_open',
    'Open GraphQL WebSocket connections',
    () => graphql.edge?.connections() ?? 0,
  );
  metrics.gauge('websocket_bytes_waiting', 'Bytes buffered for WebSocket clients', () => sockets.counts().buffered);
  metrics.gauge('mcp_sessions', 'Open MCP sessions', () => mcp.edge?.counts().sessions ?? 0);
}

function registerServiceGauges(metrics: Metrics, { services, collections }: GaugeParts): void {
  metrics.gauge('cache_healthy', '0 while Redis, or without it the database, does not answer the cache', () =>
    Number(services.cache.healthy()),
  );
  metrics.labelledGauge(
    'collection_entries',
    'Entries of collections that live as long as the process',
    'collection',
    () => sumSizes(collections),
  );
  metrics.gauge('prepared_statements', 'Prepared statements on all connections to the database', () =>
    services.store.preparedStatements(),
  );
  metrics.labelledGauge('flags', '1 if the flag is set', 'flag', () =>
    Object.fromEntries(Object.entries(services.flags()).map(([flag, state]) => [flag, Number(state)])),
  );
}

function registerClockGauges(metrics: Metrics, { clockOffsets, pruning }: GaugeParts): void {
  metrics.gauge(
    'clock_offset_seconds',
    "The host's wall clock minus the database's clock",
    () => clockOffsets().hostMs / 1000,
  );
  metrics.gauge(
    'clock_correction_seconds',
    "The reference clock minus the service's time: the correction that remains",
    () => clockOffsets().correctionMs / 1000,
  );
  metrics.gauge('pruning_suspended', '1 while pruning is suspended because the clock may be wrong', () =>
    Number(pruning.suspended()),
  );
}

function registerHistoryGauges(metrics: Metrics, { history }: GaugeParts): void {
  metrics.gauge(
    'history_oldest_report_seconds',
    'Age of the oldest report that the last hourly run could not compact',
    () => history.oldestAgeMs() / 1000,
  );
  metrics.counter(
    'history_compaction_failures',
    'Devices whose history could not be compacted',
    () => history.failures,
  );
  metrics.gauge(
    'history_sweep_seconds',
    'How long the current hourly run over all devices has taken; 0 between two runs',
    () => history.sweepingMs() / 1000,
  );
  metrics.counter(
    'history_series_merged',
    'Days of a property whose segments were merged and rolled up',
    () => history.merged,
  );
  metrics.labelledTotals(
    'history_samples_dropped',
    'Samples that were not stored, by reason',
    'reason',
    () => history.dropped,
  );
}

function registerNodeGauges(metrics: Metrics, { coordinator, waitingMigrations }: GaugeParts): void {
  const counts = (): CoordinatorCounts => coordinator?.counts() ?? soleCounts;
  metrics.gauge('shards_open', `Shards that this process runs, of ${SHARD_COUNT}`, () => counts().open);
  metrics.gauge(
    'shards_not_open',
    'Shards without a live owner, and those of this process that are not open',
    () => coordinator?.shardsNotOpen ?? 0,
  );
  metrics.gauge(
    'shards_unreadable',
    'Shards without a live owner in which a build has written that is newer than that of every live node',
    () => coordinator?.shardsUnreadable ?? 0,
  );
  metrics.gauge(
    'migrations_waiting',
    'Migrations that are applied when no node of an older build is alive',
    waitingMigrations,
  );
  metrics.counter('shards_opened', 'Shards that this process has opened', () => counts().opened);
  metrics.counter('shards_handed_over', 'Shards that this process has handed over', () => counts().handedOver);
  metrics.counter('nodes_fenced', 'Ended nodes that this process has fenced', () => counts().fenced);
  metrics.gauge(
    'nodes_alive',
    'Live nodes of the database, as this process sees them',
    () => coordinator?.liveNodes.size ?? 1,
  );
  metrics.gauge(
    'nodes_draining',
    'Nodes that operators drain, as this process sees them',
    () => coordinator?.drainingNodes ?? 0,
  );
}

/** A process that has the database to itself. */
const soleCounts: CoordinatorCounts = { open: SHARD_COUNT, opened: SHARD_COUNT, handedOver: 0, fenced: 0 };

function countCommands(metrics: Metrics, { actors }: Runtime): void {
  actors.subscribeTransitions(({ ref, snapshot }, _event, from) => {
    if (ref.kind !== 'command' || isSameStateValue(lifecycleOf(from), lifecycleOf(snapshot.value))) return;
    const {
      fixed: { refusal },
      live: { status },
    } = snapshot.context as CommandContext;
    metrics.recordCommand(status, refusal?.code ?? 'none');
  });
}

const lifecycleOf = (value: Json): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value.lifecycle ?? null) : value;
