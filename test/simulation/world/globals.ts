import crypto from 'node:crypto';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import zlib from 'node:zlib';
import type { Random } from './random.ts';
import { cancel, currentOwner, type Scheduler, type Task } from './scheduler.ts';

/** Globals that depend on the environment, replaced while a run is active. */
export interface Surroundings {
  scheduler: Scheduler;
  /** For `Math.random`, random bytes and UUIDs. */
  random: Random;
}

type Callback = (...args: unknown[]) => void;
let active: Surroundings | null = null;

/** A timer with the interface of Node's: clearable, and with the methods that programs call on it. */
class Timer {
  task: Task;
  constructor(task: Task) {
    this.task = task;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  hasRef(): boolean {
    return true;
  }
  [Symbol.toPrimitive](): number {
    return this.task.seq;
  }
}

const world = (): Surroundings => {
  if (active === null) throw new Error('a simulated program asked for the time outside of a run');
  return active;
};

/** Little memory has to be allocated and cleared for it, which is most of the cost of a few samples. */
const CHEAP = { level: 1, memLevel: 1, windowBits: 9 };
/** Time that a compression takes, on another thread of the process. */
const COMPRESSION_MS = 0.2;
const monotonicStart = 1_000;
const clear = (timer: unknown): void => {
  if (timer instanceof Timer) cancel(timer.task);
};

function setTimer(callback: Callback, ms: number, args: unknown[]): Timer {
  return new Timer(world().scheduler.at(ms, () => callback(...args)));
}

function setRepeating(callback: Callback, ms: number, args: unknown[]): Timer {
  const { scheduler } = world();
  const timer: Timer = new Timer(
    scheduler.at(ms, function again() {
      timer.task = scheduler.at(ms, again);
      callback(...args);
    }),
  );
  return timer;
}

function waiting<T>(ms: number, value: T, signal: AbortSignal | undefined): Promise<T> {
  if (signal?.aborted) return Promise.reject(signal.reason);
  return new Promise((resolve, reject) => {
    const task = world().scheduler.at(ms, () => resolve(value));
    signal?.addEventListener('abort', () => {
      cancel(task);
      reject(signal.reason);
    });
  });
}

function randomBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  world().random.fill(bytes);
  return bytes;
}

function randomUuid(): string {
  const bytes = randomBytes(16);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

const atLeastOne = (ms: number | undefined): number => Math.max(1, Number.isFinite(ms) ? (ms as number) : 1);

/**
 * Replaces timers, clocks and randomness of this isolate with those of the active run, permanently: nothing else may
 * run here.
 */
export function installGlobals(): void {
  const realNow = Date.now;
  const realPerformance = performance.now.bind(performance);
  const realMathRandom = Math.random;
  Object.assign(globalThis, {
    setTimeout: (callback: Callback, ms?: number, ...args: unknown[]) => setTimer(callback, atLeastOne(ms), args),
    setImmediate: (callback: Callback, ...args: unknown[]) => setTimer(callback, 0, args),
    setInterval: (callback: Callback, ms?: number, ...args: unknown[]) => setRepeating(callback, atLeastOne(ms), args),
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  });
  Date.now = () =>
    active === null ? realNow() : Math.floor(active.scheduler.now + (currentOwner()?.machine.clockOffsetMs ?? 0));
  performance.now = () => (active === null ? realPerformance() : monotonicStart + active.scheduler.elapsed);
  Math.random = () => (active === null ? realMathRandom() : active.random.float());

  const promises = createRequire(import.meta.url)('node:timers/promises');
  promises.setTimeout = <T>(ms: number | undefined, value: T, options?: { signal?: AbortSignal }) =>
    waiting(atLeastOne(ms), value, options?.signal);
  promises.setImmediate = <T>(value: T, options?: { signal?: AbortSignal }) => waiting(0, value, options?.signal);

  const randomFillSync = <T extends Uint8Array>(bytes: T): T => {
    world().random.fill(bytes);
    return bytes;
  };
  Object.assign(crypto, { randomBytes, randomUUID: randomUuid, randomFillSync });
  const deflateRaw = (
    input: zlib.InputType,
    _options: zlib.ZlibOptions,
    compressed: (error: Error | null, bytes: Buffer) => void,
  ): void => {
    const bytes = zlib.deflateRawSync(input, CHEAP);
    world().scheduler.at(COMPRESSION_MS, () => compressed(null, bytes));
  };
  Object.assign(zlib, { deflateRaw });
  syncBuiltinESMExports();
}

export function activate(surroundings: Surroundings): void {
  if (active !== null) throw new Error('a run is active already');
  active = surroundings;
}

export function deactivate(): void {
  active = null;
}
