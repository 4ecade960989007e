import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { freePort, program } from './programs.ts';

/** A Redis of a test's own, which it may end, start again and freeze. */
export interface TestRedis {
  url: string;
  /** Empty, on the same port. */
  start(): Promise<void>;
  /** As `kill -9`. */
  kill(): Promise<void>;
  /** It answers nothing, and its connections stay open. */
  freeze(): void;
  thaw(): void;
}

/** Not started yet; null where neither Redis nor Valkey is installed. */
export async function makeTestRedis(): Promise<TestRedis | null> {
  const path = program('redis-server') ?? program('valkey-server');
  if (path === null) return null;
  const port = await freePort();
  let child: ChildProcess | null = null;
  const gone = () => child?.kill('SIGKILL');
  process.once('exit', gone);
  return {
    url: `redis://127.0.0.1:${port}`,
    async start() {
      const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
      const started = spawn(path, settings, { stdio: ['ignore', 'pipe', 'ignore'] });
      child = started;
      let said = '';
      for await (const chunk of started.stdout) {
        said += chunk;
        if (/Ready to accept connections/.test(said)) break;
      }
      if (!/Ready to accept connections/.test(said)) throw new Error(`Redis did not start: ${said}`);
    },
    async kill() {
      if (child === null) return;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      child = null;
      await ended;
    },
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
  };
}
