import cluster, { type Worker } from 'node:cluster';
import { availableParallelism } from 'node:os';
import type { Config } from '../config.ts';
import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import type { Log } from '../domain/log.ts';
import type { Milliseconds } from '../domain/values.ts';

/** Where a process of the group serves; the same for all of them. */
export interface ServiceAddress {
  url: string;
  mqttUrl: string;
}

/** Message of a process to the group when it serves. */
export type ServingMessage = { serving: ServiceAddress };

const RESTART: BackoffLimits = { firstMs: 500, maxMs: 30_000 };
/** A process that served for this long has not failed to start. */
const STABLE_MS: Milliseconds = 10_000;

/** `auto` is one process for each core. */
export const processCount = (count: number | 'auto'): number => (count === 'auto' ? availableParallelism() : count);

/**
 * The address of a process for the others, from that of the group: without one, any port of the loopback address; with a
 * port, one port each, counted from it.
 */
export function nodeAddressOf(group: Config['node'], index: number): string {
  if (group === null) return '127.0.0.1:0';
  const { host, port } = group;
  return `${host.includes(':') ? `[${host}]` : host}:${port === 0 ? 0 : port + index}`;
}

/**
 * Several processes of `twinkeep serve` on one machine that share the ports. Each is a node of the database. One that
 * ends is started again; the others take over its tenants in the meantime.
 */
export class ServiceGroup {
  readonly #env: NodeJS.ProcessEnv;
  readonly #node: Config['node'];
  readonly #log: Log;
  readonly #workers: (Worker | null)[];
  readonly #failures: number[];
  readonly #serving = Promise.withResolvers<ServiceAddress>();
  readonly #servingWorkers = new Set<number>();
  readonly #restarts = new Set<NodeJS.Timeout>();
  #stopping: Promise<void> | null = null;

  /** `env`: variables in addition to those of this process. `node`: the address that the group was given. */
  constructor(count: number, parts: { env?: NodeJS.ProcessEnv; node: Config['node']; log: Log }) {
    const { env = {}, node, log } = parts;
    this.#env = env;
    this.#node = node;
    this.#log = log;
    this.#workers = Array.from({ length: count }, () => null);
    this.#failures = Array.from({ length: count }, () => 0);
    // The processes accept connections themselves: one that is killed leaves those it did not accept to the others. With
    // the other policy this process accepts them, and clients of a killed process would wait without an end.
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    // This program itself, so that its processes are of the same build.
    cluster.setupPrimary({ exec: process.argv[1] as string, args: ['serve'] });
  }

  /** Resolves when all processes serve; rejects if one ends before that. */
  start(): Promise<ServiceAddress> {
    for (const index of this.#workers.keys()) this.#fork(index);
    return this.#serving.promise;
  }

  /** The process ids of the processes that run. */
  get pids(): number[] {
    return this.#workers.flatMap((worker) => worker?.process.pid ?? []);
  }

  /** Whether all processes serve. */
  get complete(): boolean {
    return this.#servingWorkers.size === this.#workers.length;
  }

  /** Drains all processes; resolves when they have ended. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  #fork(index: number): void {
    const worker = cluster.fork({ ...this.#env, NODE_ADDRESS: nodeAddressOf(this.#node, index) });
    this.#workers[index] = worker;
    worker.on('message', (message: ServingMessage) => {
      if ('serving' in message) this.#onServing(index, message.serving);
    });
    const startedAt = performance.now();
    worker.once('exit', (code: number | null, signal: string | null) => {
      this.#workers[index] = null;
      this.#onExit(index, { code, signal, ranMs: performance.now() - startedAt });
    });
  }

  #onServing(index: number, address: ServiceAddress): void {
    this.#servingWorkers.add(index);
    if (this.#servingWorkers.size === this.#workers.length) this.#serving.resolve(address);
  }

  #onExit(
    index: number,
    { code, signal, ranMs }: { code: number | null; signal: string | null; ranMs: Milliseconds },
  ): void {
    if (this.#stopping !== null) return;
    if (!this.#servingWorkers.delete(index)) {
      this.#serving.reject(new Error(`a process of the service did not start (${signal ?? code})`));
    }
    const failures = ranMs >= STABLE_MS ? 1 : (this.#failures[index] ?? 0) + 1;
    this.#failures[index] = failures;
    const waitMs = backoffDelay(failures, RESTART);
    this.#log.warn({ code, signal, restart_ms: Math.round(waitMs) }, 'service process ended; starting it again');
    const timer = setTimeout(() => {
      this.#restarts.delete(timer);
      this.#fork(index);
    }, waitMs);
    this.#restarts.add(timer);
  }

  async #stopAll(): Promise<void> {
    for (const timer of this.#restarts) clearTimeout(timer);
    const running = this.#workers.filter((worker) => worker !== null);
    const ended = running.map((worker) => new Promise<void>((resolve) => worker.once('exit', () => resolve())));
    for (const worker of running) worker.process.kill('SIGTERM');
    await Promise.all(ended);
  }
}
