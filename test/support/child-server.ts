import type { ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** A server started for a test run. */
export interface Server {
  url: string;
  stop(): Promise<void>;
}

const START_TIMEOUT_MS = 20_000;

export async function waitUntilReady(ready: () => Promise<boolean>, child: ChildProcess, name: string): Promise<void> {
  const end = Date.now() + START_TIMEOUT_MS;
  while (!(await ready())) {
    if (child.exitCode !== null) throw new Error(`${name} ended at once, with ${child.exitCode}`);
    if (Date.now() > end) throw new Error(`${name} did not start within ${START_TIMEOUT_MS} ms`);
    await pause(25);
  }
}

export function waitForExit(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) resolve();
    else child.once('exit', () => resolve());
  });
}

/** Stops the server, at the latest when this process exits. */
export function stopWithParent(child: ChildProcess, signal: NodeJS.Signals, folder: string): () => Promise<void> {
  const atExit = (): void => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', atExit);
  return async () => {
    process.off('exit', atExit);
    child.kill(signal);
    const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await waitForExit(child);
    clearTimeout(late);
    rmSync(folder, { recursive: true, force: true });
  };
}
