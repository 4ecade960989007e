import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config.ts';
import { backoffDelay } from '../domain/backoff.ts';
import type { Log } from '../domain/log.ts';

/** The reference sidecar as a child process of the service. */
export interface SidecarChild {
  /** Its listening address; null while it does not listen. */
  address(): string | null;
  /** Sends SIGTERM and waits for the exit; SIGKILL follows after `endMs`. */
  stop(): Promise<void>;
  /** Sends SIGKILL. */
  abort(): void;
}

export interface ChildParts {
  /** The address to listen on; null: a free port of the loopback address. */
  listen: string | null;
  llm: Config['llm'];
  log: Log;
  level: Config['log']['level'];
  /** Called whenever the child reports that it listens. */
  onListening(): void;
  /** Replaces the bundled program. */
  entry?: string;
  delays?: typeof defaultDelays;
}

const defaultDelays = { firstMs: 250, maxMs: 30_000, steadyMs: 60_000, endMs: 2_000, checkMs: 15_000 };
/** Consecutive checks without a heartbeat after which the child counts as hung. */
const MAX_SILENT_CHECKS = 4;

/** The compiled program if it exists, else its source. */
const bundledEntry = (): string => {
  const built = fileURLToPath(new URL('../sidecar/main.js', import.meta.url));
  return existsSync(built) ? built : fileURLToPath(new URL('../../sidecar/main.ts', import.meta.url));
};

/**
 * Starts the sidecar, and restarts it with exponential backoff whenever it exits or hangs. Its environment contains the
 * settings of the language model only: no key of the service, no address of its store.
 */
export function superviseSidecar(parts: ChildParts): SidecarChild {
  const { listen, llm, log, level, onListening, entry = bundledEntry(), delays = defaultDelays } = parts;
  const env = {
    SIDECAR_ADDRESS: listen ?? '127.0.0.1:0',
    LOG_LEVEL: level,
    ...(llm && { LLM_BASE_URL: llm.baseUrl, LLM_MODEL: llm.model, ...(llm.apiKey && { LLM_API_KEY: llm.apiKey }) }),
  };
  let child: ChildProcess | null = null;
  let address: string | null = null;
  let stopped = false;
  let failures = 0;
  let restartTimer: NodeJS.Timeout | null = null;

  function start(): void {
    restartTimer = null;
    const startedAt = performance.now();
    const spawned = fork(entry, [], {
      env,
      execArgv: ['--max-old-space-size=256'],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    child = spawned;
    eachLine(spawned.stdout, (line) => relay(log, line));
    eachLine(spawned.stderr, (line) => log.warn({ part: 'sidecar' }, line));
    let silent = 0;
    const watch = setInterval(() => {
      silent += 1;
      if (silent <= MAX_SILENT_CHECKS || spawned !== child) return;
      log.warn({ part: 'sidecar' }, 'sidecar hangs; killing it');
      spawned.kill('SIGKILL');
    }, delays.checkMs);
    watch.unref();
    spawned.on('message', (message) => {
      silent = 0;
      const reported = (message as { listening?: unknown } | null)?.listening;
      if (typeof reported !== 'string' || spawned !== child) return;
      address = reported;
      onListening();
    });
    const onEnd = (reason: object) => {
      clearInterval(watch);
      if (spawned !== child) return;
      child = null;
      address = null;
      if (stopped) return;
      failures = performance.now() - startedAt >= delays.steadyMs ? 1 : failures + 1;
      const delayMs = backoffDelay(failures, delays);
      log.warn({ ...reason, pause_ms: delayMs }, 'sidecar ended; restarting');
      restartTimer = setTimeout(start, delayMs);
      restartTimer.unref();
    };
    spawned.on('error', (error) => onEnd({ reason: error.message }));
    spawned.on('exit', (code, signal) => onEnd({ code, signal }));
  }

  const detach = (): ChildProcess | null => {
    stopped = true;
    if (restartTimer !== null) clearTimeout(restartTimer);
    return child;
  };

  start();
  return {
    address: () => address,
    async stop() {
      const spawned = detach();
      if (spawned === null || spawned.exitCode !== null || spawned.signalCode !== null) return;
      const exited = new Promise<void>((resolve) => spawned.once('exit', () => resolve()));
      const force = setTimeout(() => spawned.kill('SIGKILL'), delays.endMs);
      spawned.kill('SIGTERM');
      await exited;
      clearTimeout(force);
    },
    abort: () => void detach()?.kill('SIGKILL'),
  };
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
