import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { gunzipSync } from 'node:zlib';

/*
 * Entry of a thread that unpacks the files of a new database and ends, which returns its memory. The main thread loads
 * the modules of the service meanwhile. It reads what `packDatabase` in scripts/build-database.ts writes: a tar archive
 * of folders and files with short names. A library for all kinds of archives takes as long to load as the files to unpack.
 */

export interface Unpacking {
  /** A gzipped tar archive. */
  file: string;
  /** An empty folder. */
  cwd: string;
}

const BLOCK_BYTES = 512;
/** Offsets and lengths of the fields of a header (POSIX.1-1988, ustar). */
const NAME = [0, 100] as const;
const MODE = [100, 8] as const;
const SIZE = [124, 12] as const;
const TYPE = [156, 1] as const;
const FOLDER = '5';
const FILE = '0';

function unpack({ file, cwd }: Unpacking): void {
  // Compares the checksum of the whole archive.
  const archive = gunzipSync(readFileSync(file));
  const text = (at: number, [offset, length]: readonly [number, number]): string =>
    archive.toString('latin1', at + offset, at + offset + length).replace(/\0.*/s, '');
  // Two empty blocks end an archive.
  for (let at = 0; archive[at] !== 0; ) {
    const [path, mode, type] = [join(cwd, text(at, NAME)), Number.parseInt(text(at, MODE), 8), text(at, TYPE)];
    const size = Number.parseInt(text(at, SIZE), 8);
    const content = at + BLOCK_BYTES;
    if (type === FOLDER) mkdirSync(path, { mode, recursive: true });
    else if (type === FILE) writeFileSync(path, archive.subarray(content, content + size), { mode });
    else throw new Error(`${file}: unknown type of entry ${type}`);
    at = content + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
  }
}

unpack(workerData as Unpacking);
