import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { nodeEnv } from './node-flags.ts';
import { freePort } from './programs.ts';

const entry = fileURLToPath(new URL('../../sidecar/main.ts', import.meta.url));

/** A sidecar in a child process, with an address that stays the same when it is restarted. */
export interface SidecarProcess {
  address: string;
  start(): Promise<void>;
  kill(): Promise<void>;
}

/** The reference sidecar, or the program at `path`, which writes to stdout once it listens. */
export async function sidecarProcess(path?: string, env: Record<string, string> = {}): Promise<SidecarProcess> {
  const address = `127.0.0.1:${await freePort()}`;
  let child: ChildProcess | null = null;
  return {
    address,
    async start() {
      if (path === undefined) {
        child = fork(entry, [], {
          env: { ...nodeEnv, SIDECAR_ADDRESS: address },
          execArgv: [],
          stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
        });
        await Promise.race([once(child, 'message'), ended(child)]);
      } else {
        child = spawn(process.execPath, [path], {
          env: { ADDRESS: address, ...env },
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        if (child.stdout) await Promise.race([once(child.stdout, 'data'), ended(child)]);
      }
    },
    async kill() {
      if (child === null || child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

const ended = async (child: ChildProcess): Promise<never> => {
  const [code, signal] = await once(child, 'exit');
  throw new Error(`the sidecar exited: ${signal ?? code}`);
};
