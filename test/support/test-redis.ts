import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { freePort, program } from './programs.ts';

/** A Redis for one test, which can stop, restart and freeze it. */
export interface TestRedis {
  url: string;
  /** Starts it empty, on the same port. */
  start(): Promise<void>;
  /** Like `kill -9`. */
  kill(): Promise<void>;
  /** Stops answering, with connections open. */
  freeze(): void;
  thaw(): void;
}

/** Not started yet; null if neither Redis nor Valkey is installed. */
export async function makeTestRedis(): Promise<TestRedis | null> {
  const path = program('redis-server') ?? program('valkey-server');
  if (path === null) return null;
  const port = await freePort();
  let child: ChildProcess | null = null;
  const kill = () => child?.kill('SIGKILL');
  process.once('exit', kill);
  return {
    url: `redis://127.0.0.1:${port}`,
    async start() {
      const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
      const started = spawn(path, settings, { stdio: ['ignore', 'pipe', 'ignore'] });
      child = started;
      let output = '';
      for await (const chunk of started.stdout) {
        output += chunk;
        if (/Ready to accept connections/.test(output)) break;
      }
      if (!/Ready to accept connections/.test(output)) throw new Error(`Redis did not start: ${output}`);
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
