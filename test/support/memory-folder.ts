import { spawnSync } from 'node:child_process';
import { accessSync, chmodSync, constants, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { env, kill, pid } from 'node:process';

/*
 * Temporary files of a test run in memory. Tests create and delete hundreds of databases of 600 files each. On ext4 without
 * a journal, which does not reuse the inode of a deleted file for a minute, a new PostgreSQL database takes the kernel 0.4 s
 * of processor time, and in memory 0.03 s.
 */

const DEFAULT = '/tmp';
const PARENT = '/dev/shm';
const PREFIX = 'twinkeep-tests-';
/** f_type of a tmpfs (statfs(2)). */
const TMPFS = 0x01021994;
const MIN_FREE_BYTES = 4 * 1024 ** 3;

/**
 * Makes a folder in memory the one for temporary files of this process and of those that it starts, and removes it when this process
 * ends. Does nothing if the environment sets such a folder, or without a file system in memory that has 4 GiB left and may contain
 * programs.
 */
export function moveTemporaryFilesToMemory(): void {
  if (tmpdir() !== DEFAULT || !hasRoom()) return;
  removeAbandoned();
  const folder = join(PARENT, `${PREFIX}${pid}`);
  mkdirSync(folder, { recursive: true });
  // PostgreSQL's user creates nothing here, but opens files in folders of its own.
  chmodSync(folder, 0o711);
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  if (!runsPrograms(folder)) {
    remove();
    return;
  }
  env.TMPDIR = folder;
  process.once('exit', remove);
}

/** Folder for temporary files that test runs share. */
export const commonFolder = (): string => (tmpdir().startsWith(join(PARENT, PREFIX)) ? DEFAULT : tmpdir());

function hasRoom(): boolean {
  try {
    accessSync(PARENT, constants.W_OK);
    const { type, bavail, bsize } = statfsSync(PARENT);
    return type === TMPFS && bavail * bsize >= MIN_FREE_BYTES;
  } catch {
    return false;
  }
}

/** Containers mount it with `noexec` by default. */
function runsPrograms(folder: string): boolean {
  const file = join(folder, 'program');
  writeFileSync(file, '#!/bin/sh\n', { mode: 0o700 });
  const { status } = spawnSync(file);
  rmSync(file);
  return status === 0;
}

/** Removes the folders of runs that were killed. */
function removeAbandoned(): void {
  for (const name of readdirSync(PARENT)) {
    if (!name.startsWith(PREFIX) || isRunning(Number(name.slice(PREFIX.length)))) continue;
    rmSync(join(PARENT, name), { recursive: true, force: true });
  }
}

function isRunning(id: number): boolean {
  try {
    return kill(id, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
