import type { RuntimeLimits } from '../actors/runtime-limits.ts';
import type { Clock } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { LinkLimits } from '../edges/cluster/link-limits.ts';
import type { SidecarLimits } from '../edges/grpc/sidecar-limits.ts';
import type { SessionLimits } from '../edges/mcp/session-registry.ts';
import type { MqttLimits } from '../edges/mqtt/mqtt-limits.ts';
import type { FixedRates } from '../edges/shared/rate-limiter.ts';
import type { Services } from '../operations/operation.ts';
import type { CompactionLimits } from '../services/compaction-limits.ts';
import type { CoordinatorTiming } from '../services/shard-coordinator.ts';
import type { Store } from '../store/contract.ts';
import type { LockTiming } from '../store/lock/lock-timing.ts';
import type { UpkeepTiming } from './history-upkeep.ts';

/** Options of a start that are not settings of the environment. */
export interface StartOptions {
  log: Log;
  /** Replaces the service clock that follows the database and the host. */
  clock?: Clock;
  /** The host's wall clock, in epoch milliseconds; `Date.now` by default. */
  wallClock?(): number;
  /** `host:port` at which other nodes reach this one, if not at its own listener: that of a proxy. */
  link?: string;
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
    coordinator?: Partial<CoordinatorTiming>;
    links?: Partial<LinkLimits>;
    history?: Partial<CompactionLimits & UpkeepTiming>;
    /** Milliseconds between two reads of the database's clock by a standby. */
    clockCheckMs?: number;
  };
  /** Wraps the store, so that tests can inject failures. */
  wrapStore?(store: Store): Store;
  /** Receives the services before any listener opens, for programs that embed the service. */
  onAssembled?(services: Services): void;
}
