import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system of its own, small enough to be filled. */
export interface SmallDisk {
  path: string;
  /** Leaves about that many bytes free. */
  fill(leaving?: number): void;
  free(): void;
  remove(): void;
}

const CHUNK = Buffer.alloc(65_536);

/** Null where this process may not mount one. */
export function smallDisk(megabytes: number): SmallDisk | null {
  const path = mkdtempSync(join(tmpdir(), 'twinkeep-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0777`, 'tmpfs', path], { stdio: 'pipe' });
  } catch {
    rmSync(path, { recursive: true });
    return null;
  }
  const filler = join(path, 'filler');
  return {
    path,
    fill(leaving = 0) {
      let size = 0;
      for (let chunk = CHUNK; chunk.length > 0; ) {
        try {
          appendFileSync(filler, chunk);
          size += chunk.length;
        } catch {
          chunk = chunk.subarray(0, chunk.length >> 1);
        }
      }
      if (leaving > 0) truncateSync(filler, Math.max(0, size - leaving));
    },
    free: () => rmSync(filler, { force: true }),
    remove() {
      // A server may keep a file of a dropped table open until its next checkpoint.
      execFileSync('umount', ['--lazy', path], { stdio: 'pipe' });
      rmSync(path, { recursive: true });
    },
  };
}
