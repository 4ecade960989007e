import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config.ts';
import { backoffDelay } from '../domain/backoff.ts';
import type { Log } from '../domain/log.ts';
import type { Milliseconds } from '../domain/values.ts';

export interface ChildParts {
  /** The address to listen on; null: port 50051 of the loopback address, or a free one if that is taken. */
  listen: string | null;
  llm: Config['llm'];
  log: Log;
  level: Config['log']['level'];
  /** Called whenever the child reports that it listens. */
  onListening(): void;
  /** Instead of port 50051. */
  preferredPort?: number;
  /** Replaces the bundled program. */
  entry?: string;
  delays?: typeof defaultDelays;
}

/** Argument of the reference sidecar: it accepts only calls with the token that follows as a message. */
const TOKEN_ARGUMENT = '--token-from-parent';
const TOKEN_BYTES = 32;

const defaultDelays = { firstMs: 250, maxMs: 30_000, steadyMs: 60_000, endMs: 2_000, checkMs: 15_000 };
/** Consecutive checks without a heartbeat after which the child counts as hung. */
const MAX_SILENT_CHECKS = 4;

/** The compiled program if it exists, else its source. */
const bundledEntry = (): string => {
  const built = fileURLToPath(new URL('../sidecar/main.js', import.meta.url));
  return existsSync(built) ? built : fileURLToPath(new URL('../../sidecar/main.ts', import.meta.url));
};

/**
 * The reference sidecar as a child process of the service: started by the constructor, and restarted with exponential
 * backoff whenever it exits or hangs.
 */
export class SidecarChild {
  readonly #parts: ChildParts;
  readonly #entry: string;
  readonly #delays: typeof defaultDelays;
  #process: ChildProcess | null = null;
  #address: string | null = null;
  /** A new one for each process, so that another program at the address of an earlier one learns nothing of use. */
  #token: string | null = null;
  #stopped = false;
  #failures = 0;
  #restartTimer: NodeJS.Timeout | null = null;

  constructor(parts: ChildParts) {
    this.#parts = parts;
    this.#entry = parts.entry ?? bundledEntry();
    this.#delays = parts.delays ?? defaultDelays;
    this.#start();
  }

  /** Its listening address; null while it does not listen. */
  address(): string | null {
    return this.#address;
  }

  /** The token that its calls must have; null while it does not listen. */
  token(): string | null {
    return this.#address === null ? null : this.#token;
  }

  /** Sends SIGTERM and waits for the exit; SIGKILL follows after `endMs`. */
  async stop(): Promise<void> {
    const spawned = this.#detach();
    if (spawned === null || spawned.exitCode !== null || spawned.signalCode !== null) return;
    const exited = new Promise<void>((resolve) => spawned.once('exit', () => resolve()));
    const force = setTimeout(() => spawned.kill('SIGKILL'), this.#delays.endMs);
    spawned.kill('SIGTERM');
    await exited;
    clearTimeout(force);
  }

  /** Sends SIGKILL. */
  abort(): void {
    this.#detach()?.kill('SIGKILL');
  }

  #start(): void {
    const { log } = this.#parts;
    this.#restartTimer = null;
    const startedAt = performance.now();
    let spawned: ChildProcess;
    try {
      spawned = fork(this.#entry, [TOKEN_ARGUMENT], {
        env: environmentOf(this.#parts),
        execArgv: ['--max-old-space-size=256'],
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      });
    } catch (error) {
      // For example without free memory. The service continues without the sidecar.
      this.#onEnd({ reason: (error as Error).message }, 0);
      return;
    }
    this.#process = spawned;
    this.#token = randomBytes(TOKEN_BYTES).toString('base64url');
    // A process that has ended already is reported by its exit. One that was not started has no channel: its error follows.
    spawned.send?.({ token: this.#token }, () => {});
    eachLine(spawned.stdout, (line) => relay(log, line));
    eachLine(spawned.stderr, (line) => log.warn({ part: 'sidecar' }, line));
    const watch = this.#watchHeartbeat(spawned);
    const onEnd = (reason: object) => {
      clearInterval(watch);
      if (spawned === this.#process) this.#onEnd(reason, performance.now() - startedAt);
    };
    spawned.on('message', (message) => this.#onMessage(spawned, message));
    spawned.on('error', (error) => onEnd({ reason: error.message }));
    spawned.on('exit', (code, signal) => onEnd({ code, signal }));
  }

  /** Kills the process when it sends no message for too long. */
  #watchHeartbeat(spawned: ChildProcess): NodeJS.Timeout {
    let silentChecks = 0;
    spawned.on('message', () => {
      silentChecks = 0;
    });
    return setInterval(() => {
      silentChecks += 1;
      if (silentChecks <= MAX_SILENT_CHECKS || spawned !== this.#process) return;
      this.#parts.log.warn({ part: 'sidecar' }, 'sidecar hangs; killing it');
      spawned.kill('SIGKILL');
    }, this.#delays.checkMs).unref();
  }

  #onMessage(spawned: ChildProcess, message: unknown): void {
    const reported = (message as { listening?: unknown } | null)?.listening;
    if (typeof reported !== 'string' || spawned !== this.#process) return;
    this.#address = reported;
    this.#parts.onListening();
  }

  #onEnd(reason: object, ranMs: Milliseconds): void {
    this.#process = null;
    this.#address = null;
    if (this.#stopped) return;
    this.#failures = ranMs >= this.#delays.steadyMs ? 1 : this.#failures + 1;
    const delayMs = backoffDelay(this.#failures, this.#delays);
    this.#parts.log.warn({ ...reason, pause_ms: delayMs }, 'sidecar ended; restarting');
    this.#restartTimer = setTimeout(() => this.#start(), delayMs).unref();
  }

  /** Ends the supervision; returns the process if there is one. */
  #detach(): ChildProcess | null {
    this.#stopped = true;
    if (this.#restartTimer !== null) clearTimeout(this.#restartTimer);
    return this.#process;
  }
}

/** No key of the service and no address of its store. */
const environmentOf = ({ listen, preferredPort = 50_051, llm, level }: ChildParts): NodeJS.ProcessEnv => ({
  SIDECAR_ADDRESS: listen ?? `127.0.0.1:${preferredPort}`,
  ...(listen === null && { SIDECAR_PORT: 'preferred' }),
  ...compileCache(),
  LOG_LEVEL: level,
  ...(llm && { LLM_BASE_URL: llm.baseUrl, LLM_MODEL: llm.model, ...(llm.apiKey && { LLM_API_KEY: llm.apiKey }) }),
});

/**
 * A cache of compiled modules in a folder beside that of this process, if it has one. With it the program starts in half the
 * time. It is another cache because V8 takes compiled code only with the flags with which it was compiled (src/cli/v8-flags.ts).
 */
function compileCache(): NodeJS.ProcessEnv {
  const used = module.getCompileCacheDir();
  // The folder of this version of Node.js is below the folder of the setting.
  return used === undefined ? {} : { NODE_COMPILE_CACHE: join(dirname(used), 'sidecar') };
}

const MAX_LINE = 4_000;
const levels = ['debug', 'info', 'warn', 'error'] as const;

/** Relays a log line of the sidecar to the service's log, marked with `part`. */
function relay(log: Log, line: string): void {
  try {
    const { level, time: _, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
    const logLevel = levels.find((one) => one === level) ?? 'info';
    log[logLevel]({ ...fields, part: 'sidecar' }, String(msg));
  } catch {
    log.info({ part: 'sidecar' }, line);
  }
}

/** Splits a stream into lines. Long lines are truncated to bound memory. */
function eachLine(from: Readable | null, onLine: (line: string) => void): void {
  let rest = '';
  from?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(0, MAX_LINE);
    for (const line of lines) if (line.trim() !== '') onLine(line.slice(0, MAX_LINE));
  });
}
