import { type ChildProcess, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config.ts';
import type { Log } from '../domain/log.ts';

/** The reference sidecar as a child of the service. */
export interface SidecarChild {
  /** Where it listens; null while it does not. */
  address(): string | null;
  /** Lets it end, and waits until it has. */
  stop(): Promise<void>;
  /** Ends it at once. */
  abort(): void;
}

export interface ChildParts {
  /** Where it is to listen; null: on a free port of the loopback address. */
  listen: string | null;
  llm: Config['llm'];
  log: Log;
  level: Config['log']['level'];
  /** Called each time it listens. */
  onListening(): void;
  /** The program, where it is another. */
  entry?: string;
  pauses?: typeof usualPauses;
}

const usualPauses = { firstMs: 250, mostMs: 30_000, steadyMs: 60_000, endMs: 2_000, lookMs: 15_000 };
/** Looks in a row at which it had said nothing: it lives, and does nothing any more. */
const MOST_SILENT = 4;

/** Beside the sources, or beside what was built of them. */
const builtIn = (): string => {
  const built = fileURLToPath(new URL('../sidecar/main.js', import.meta.url));
  return existsSync(built) ? built : fileURLToPath(new URL('../../sidecar/main.ts', import.meta.url));
};

/**
 * Starts the sidecar, and starts it again whenever it ends or no longer says that it is there. It is given the language model's settings and nothing else of
 * the environment: no key of the service, no address of its store.
 */
export function superviseSidecar(parts: ChildParts): SidecarChild {
  const { listen, llm, log, level, onListening, entry = builtIn(), pauses = usualPauses } = parts;
  const env = {
    SIDECAR_ADDRESS: listen ?? '127.0.0.1:0',
    LOG_LEVEL: level,
    ...(llm && { LLM_BASE_URL: llm.baseUrl, LLM_MODEL: llm.model, ...(llm.apiKey && { LLM_API_KEY: llm.apiKey }) }),
  };
  let child: ChildProcess | null = null;
  let address: string | null = null;
  let ended = false;
  let fails = 0;
  let pause: NodeJS.Timeout | null = null;

  function begin(): void {
    pause = null;
    const startedAt = performance.now();
    const own = fork(entry, [], {
      env,
      execArgv: ['--max-old-space-size=256'],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    child = own;
    eachLine(own.stdout, (line) => relay(log, line));
    eachLine(own.stderr, (line) => log.warn({ part: 'sidecar' }, line));
    let silent = 0;
    const watch = setInterval(() => {
      silent += 1;
      if (silent <= MOST_SILENT || own !== child) return;
      log.warn({ part: 'sidecar' }, 'the sidecar hangs and is killed');
      own.kill('SIGKILL');
    }, pauses.lookMs);
    watch.unref();
    own.on('message', (message) => {
      silent = 0;
      const told = (message as { listening?: unknown } | null)?.listening;
      if (typeof told !== 'string' || own !== child) return;
      address = told;
      onListening();
    });
    const over = (why: object) => {
      clearInterval(watch);
      if (own !== child) return;
      child = null;
      address = null;
      if (ended) return;
      fails = performance.now() - startedAt >= pauses.steadyMs ? 1 : fails + 1;
      const ms = Math.min(pauses.mostMs, pauses.firstMs * 2 ** Math.min(fails - 1, 20));
      log.warn({ ...why, pause_ms: ms }, 'the sidecar ended and is started again');
      pause = setTimeout(begin, ms);
      pause.unref();
    };
    own.on('error', (error) => over({ reason: error.message }));
    own.on('exit', (code, signal) => over({ code, signal }));
  }

  const end = (): ChildProcess | null => {
    ended = true;
    if (pause !== null) clearTimeout(pause);
    return child;
  };

  begin();
  return {
    address: () => address,
    async stop() {
      const own = end();
      if (own === null || own.exitCode !== null || own.signalCode !== null) return;
      const gone = new Promise<void>((resolve) => own.once('exit', () => resolve()));
      const force = setTimeout(() => own.kill('SIGKILL'), pauses.endMs);
      own.kill('SIGTERM');
      await gone;
      clearTimeout(force);
    },
    abort: () => void end()?.kill('SIGKILL'),
  };
}

const LONGEST_LINE = 4_000;
const levels = ['debug', 'info', 'warn', 'error'] as const;

/** What it says becomes ours, under its own name. */
function relay(log: Log, line: string): void {
  try {
    const { level, time: _, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
    const known = levels.find((one) => one === level) ?? 'info';
    log[known]({ ...fields, part: 'sidecar' }, String(msg));
  } catch {
    log.info({ part: 'sidecar' }, line);
  }
}

/** Lines are cut where they are too long, so that nothing is gathered without end. */
function eachLine(from: Readable | null, take: (line: string) => void): void {
  let rest = '';
  from?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = (lines.pop() ?? '').slice(0, LONGEST_LINE);
    for (const line of lines) if (line.trim() !== '') take(line.slice(0, LONGEST_LINE));
  });
}
