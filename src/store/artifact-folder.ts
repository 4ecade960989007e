import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ArtifactDigest } from './artifact-digest.ts';
import type { ArtifactFiles, ByteRange, WrittenArtifact } from './contract/artifact-files.ts';
import { StoreUnavailable } from './contract.ts';

const READ_BYTES = 256 * 1024;

/**
 * Artifacts as files in a folder, which is created with the first one. A file is written as `.part` and renamed once it
 * is complete and synced to disk. A reader that has begun continues after the file is removed.
 */
export function artifactFolder(folder: string): ArtifactFiles {
  const pathOf = (name: string): string => join(folder, name);
  const partOf = (name: string): string => `${pathOf(name)}.part`;
  const remove = async (name: string): Promise<void> => {
    await Promise.all([rm(pathOf(name), { force: true }), rm(partOf(name), { force: true })]);
  };

  return {
    remove,
    async open(name) {
      const path = pathOf(name);
      const size = await onDisk(sizeOf(path));
      return size === null ? null : { bytes: size, read: (range) => readRange(path, range) };
    },
    async write(name, source, maxBytes) {
      try {
        const created = await onDisk(mkdir(folder, { recursive: true, mode: 0o700 }));
        if (created !== undefined) await onDisk(syncFolder(dirname(created)));
        const file = await onDisk(open(partOf(name), 'wx', 0o600));
        const written = await copy(source, file, maxBytes).finally(() => file.close());
        await onDisk(rename(partOf(name), pathOf(name)));
        await onDisk(syncFolder(folder));
        return written;
      } catch (error) {
        // A failed clean-up must not hide the original error.
        await remove(name).catch(() => {});
        throw error;
      }
    },
  };
}

async function copy(source: AsyncIterable<Uint8Array>, file: FileHandle, maxBytes: number): Promise<WrittenArtifact> {
  const digest = new ArtifactDigest(maxBytes);
  for await (const chunk of source) {
    digest.add(chunk);
    await onDisk(writeFully(file, chunk));
  }
  await onDisk(file.sync());
  return digest.finish();
}

async function writeFully(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let from = 0; from < chunk.length; ) from += (await file.write(chunk, from)).bytesWritten;
}

/** Null if there is no such file. */
async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (MISSING.has(codeOf(error))) return null;
    throw error;
  }
}

const MISSING: ReadonlySet<unknown> = new Set(['ENOENT', 'ENOTDIR']);

async function* readRange(path: string, range: ByteRange): AsyncGenerator<Uint8Array> {
  const stream = createReadStream(path, { ...range, highWaterMark: READ_BYTES });
  try {
    yield* stream;
  } catch (error) {
    throw diskFault(error);
  }
}

/** A new name is durable only after its folder is synced. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

/** A full or missing disk is a temporary fault: the operation can be retried. */
const onDisk = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw diskFault(error);
  });

const diskFault = (error: unknown): StoreUnavailable =>
  new StoreUnavailable(`artifact folder: ${codeOf(error) ?? error}`);

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;
