import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { nodeEnv } from './node.ts';
import { freePort } from './programs.ts';

const entry = fileURLToPath(new URL('../../sidecar/main.ts', import.meta.url));

/** A sidecar in a process of its own, at an address that it keeps when it is started again. */
export interface SidecarProcess {
  address: string;
  start(): Promise<void>;
  kill(): Promise<void>;
}

/** The reference sidecar, or the program at `path`, which says on stdout when it listens. */
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
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
  };
}

const ended = async (child: ChildProcess): Promise<never> => {
  const [code, signal] = await once(child, 'exit');
  throw new Error(`the sidecar ended: ${signal ?? code}`);
};
