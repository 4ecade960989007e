import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Milliseconds } from '../domain/values.ts';

const CHECK_MS: Milliseconds = 5_000;
/** Below this share of one core the process is idle; its own timers and the renewal of the lease take 1–3 %. */
const IDLE_CPU_SHARE = 0.1;
/** A collection follows so many idle checks in a row, repeatedly: V8 needs up to 16 s to return memory. */
const IDLE_CHECKS = 4;
/** Memory outside of used objects that is worth a collection: a process that has returned it has about 75 MB. */
const WORTH_BYTES = 110 * 2 ** 20;

/** The functions of the process and V8 that `IdleMemory` uses; replaced in tests. */
export interface MemoryHost {
  /** Processor time of the process in milliseconds. */
  cpuMs(): Milliseconds;
  /** Monotonic milliseconds. */
  now(): Milliseconds;
  /** Resident memory that holds no JavaScript objects or buffers in use, in bytes. */
  unusedBytes(): number;
  /** Collects the young generation, which takes milliseconds. */
  scavenge(): void;
}

/**
 * Lets V8 return the memory of an idle process to the system. V8's memory reducer, which collects incrementally, waits
 * until few bytes are allocated in a second. V8 computes that rate in collections of the young generation, and a process
 * that has started and has no load has none for minutes. So they are requested here. A busy process is not touched.
 */
export class IdleMemory {
  readonly #host: MemoryHost;
  #last: { at: Milliseconds; cpuMs: Milliseconds };
  #idleChecks = 0;

  constructor(host: MemoryHost) {
    this.#host = host;
    this.#last = { at: host.now(), cpuMs: host.cpuMs() };
  }

  /** Called periodically. */
  check(): void {
    this.#idleChecks = this.#isIdle() ? this.#idleChecks + 1 : 0;
    const isDue = this.#idleChecks > 0 && this.#idleChecks % IDLE_CHECKS === 0;
    if (isDue && this.#host.unusedBytes() >= WORTH_BYTES) this.#host.scavenge();
  }

  #isIdle(): boolean {
    const { at, cpuMs } = this.#last;
    this.#last = { at: this.#host.now(), cpuMs: this.#host.cpuMs() };
    return this.#last.cpuMs - cpuMs < IDLE_CPU_SHARE * (this.#last.at - at);
  }
}

/** Returns memory whenever this process is idle, until it ends. */
export function returnMemoryWhenIdle(): void {
  const memory = new IdleMemory(v8Host());
  setInterval(() => memory.check(), CHECK_MS).unref();
}

function v8Host(): MemoryHost {
  let collect: ((options: { type: 'minor' }) => void) | null = null;
  return {
    cpuMs() {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1_000;
    },
    now: () => performance.now(),
    unusedBytes() {
      const { rss, heapUsed, external } = process.memoryUsage();
      return rss - heapUsed - external;
    },
    scavenge() {
      collect ??= exposedCollector();
      collect({ type: 'minor' });
    },
  };
}

/** V8's `gc`, which exists in contexts that are created while the flag is set. */
function exposedCollector(): (options: { type: 'minor' }) => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return collect;
}
