import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** A process of the benchmark's own, spoken to by messages of one member: `{ ready: true }`, `{ result: … }`. */
export interface Child {
  readonly pid: number;
  send(message: object): void;
  /** The next message that has this member; rejects when the process ends before. */
  receive<T>(member: string): Promise<T>;
  /** Ends it by closing its channel, and by force when it does not go in 15 s. */
  end(): Promise<void>;
  /** `kill -9` without a word; resolves when it is gone. */
  kill(): Promise<void>;
  readonly exited: Promise<void>;
}

export interface ChildOptions {
  args?: string[];
  /** Options of Node. */
  node?: string[];
  env?: Record<string, string>;
}

const GRACE_MS = 15_000;
const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

/** Starts a TypeScript file as a child process. It dies with this one. */
export function startChild(file: URL, { args = [], node = [], env = {} }: ChildOptions = {}): Child {
  const path = fileURLToPath(file);
  const child = fork(path, args, { execArgv: node, env: { ...process.env, ...env }, serialization: 'advanced' });
  running.add(child);
  const inbox: Record<string, unknown>[] = [];
  const waiting = new Map<string, { resolve(value: never): void; reject(error: Error): void }>();
  let gone: Error | null = null;

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
      gone = new Error(`${path} ended (${signal ?? code})`);
      for (const { reject } of waiting.values()) reject(gone);
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
      if (gone) return Promise.reject(gone);
      return new Promise<T>((resolve, reject) => waiting.set(member, { resolve, reject }));
    },
    async end() {
      if (gone) return;
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
