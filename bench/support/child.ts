import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A child process of the benchmark, controlled by messages with one member: `{ ready: true }`, `{ result: … }`. */
export interface Child {
  readonly pid: number;
  send(message: object): void;
  /** The next message that has this member; rejects if the process ends first. */
  receive<T>(member: string): Promise<T>;
  /** Closes the channel, which ends the process; kills it after 15 s. */
  end(): Promise<void>;
  /** `kill -9`; resolves when the process has ended. */
  kill(): Promise<void>;
  readonly exited: Promise<void>;
}

export interface ChildOptions {
  args?: string[];
  /** Command-line options of Node. */
  node?: string[];
  env?: Record<string, string>;
}

const GRACE_MS = 15_000;
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

/** Starts a TypeScript file as a child process. It ends with this process. */
export function startChild(file: URL, { args = [], node = [], env = {} }: ChildOptions = {}): Child {
  const path = fileURLToPath(file);
  const child = fork(path, args, { execArgv: node, env: { ...process.env, ...env }, serialization: 'advanced' });
  running.add(child);
  const inbox: Record<string, unknown>[] = [];
  const waiting = new Map<string, { resolve(value: never): void; reject(error: Error): void }>();
  let exitError: Error | null = null;

  child.on('message', (message: Record<string, unknown>) => {
    for (const [member, waiter] of waiting) {
      if (!Object.hasOwn(message, member)) continue;
      waiting.delete(member);
      waiter.resolve(message[member] as never);
      return;
    }
    inbox.push(message);
  });
  const exited = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      running.delete(child);
      exitError = new Error(`${path} ended (${signal ?? code})`);
      for (const { reject } of waiting.values()) reject(exitError);
      waiting.clear();
      resolve();
    });
  });

  return {
    pid: child.pid ?? 0,
    exited,
    send: (message) => void child.send(message),
    receive<T>(member: string) {
      const at = inbox.findIndex((message) => Object.hasOwn(message, member));
      if (at >= 0) return Promise.resolve(inbox.splice(at, 1)[0]?.[member] as T);
      if (exitError) return Promise.reject(exitError);
      return new Promise<T>((resolve, reject) => waiting.set(member, { resolve, reject }));
    },
    async end() {
      if (exitError) return;
      if (child.connected) child.disconnect();
      const force = setTimeout(() => child.kill('SIGKILL'), GRACE_MS);
      await exited;
      clearTimeout(force);
    },
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
