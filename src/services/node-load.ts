import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { MonotonicClock } from '../domain/lease.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { NodeLoad } from '../store/contract/cluster.ts';

/** Interval of the timer that measures the event loop; it is part of each value that is measured. */
const RESOLUTION_MS = 20;
const NANOSECONDS = 1e6;
/** In shorter periods the share of the processor's time varies too much. */
const MIN_PERIOD_MS = 1_000;

export interface LoadSources {
  liveActors(): number;
  deviceSessions(): number;
  /** Defaults to `performance.now()`. */
  monotonic?: MonotonicClock;
  /** Processor time of the process; by default as the system reports it. */
  cpuMs?(): Milliseconds;
}

type LoadOverTime = Pick<NodeLoad, 'cpuShare' | 'eventLoopDelayMs'>;

/** Measures the load of this process. */
export class NodeLoadMeter {
  readonly #sources: LoadSources;
  readonly #now: MonotonicClock;
  readonly #cpuMs: () => Milliseconds;
  readonly #delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #since: { at: number; cpuMs: Milliseconds };
  #measured: LoadOverTime | null = null;

  constructor(sources: LoadSources) {
    this.#sources = sources;
    this.#now = sources.monotonic ?? (() => performance.now());
    this.#cpuMs = sources.cpuMs ?? processorTimeMs;
    this.#since = { at: this.#now(), cpuMs: this.#cpuMs() };
    this.#delay.enable();
  }

  /** The load now. Processor and event loop: since the last measurement, which is repeated after a second at least. */
  read(): NodeLoad {
    const { heapUsed, rss } = process.memoryUsage();
    return {
      liveActors: this.#sources.liveActors(),
      deviceSessions: this.#sources.deviceSessions(),
      ...this.#overTime(),
      heapBytes: heapUsed,
      rssBytes: rss,
    };
  }

  #overTime(): LoadOverTime {
    const now = { at: this.#now(), cpuMs: this.#cpuMs() };
    const elapsed = now.at - this.#since.at;
    if (this.#measured !== null && elapsed < MIN_PERIOD_MS) return this.#measured;
    this.#measured = {
      cpuShare: Math.round((1_000 * (now.cpuMs - this.#since.cpuMs)) / Math.max(elapsed, 1)) / 1_000,
      eventLoopDelayMs: Math.max(0, Math.round(this.#delay.percentile(99) / NANOSECONDS - RESOLUTION_MS)),
    };
    this.#since = now;
    this.#delay.reset();
    return this.#measured;
  }
}

function processorTimeMs(): Milliseconds {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
