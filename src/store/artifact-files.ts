import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type ArtifactFiles, ArtifactTooLarge, type WrittenArtifact } from './contract/artifact-files.ts';
import { StoreUnavailable } from './contract.ts';

/**
 * Artifacts as files in a folder, which is created with the first one. A file is written as `.part` and renamed once it
 * is complete and synced to disk.
 */
export function artifactFiles(folder: string): ArtifactFiles {
  const pathOf = (name: string): string => join(folder, name);
  const partOf = (name: string): string => `${pathOf(name)}.part`;
  const remove = async (name: string): Promise<void> => {
    await Promise.all([rm(pathOf(name), { force: true }), rm(partOf(name), { force: true })]);
  };

  return {
    pathOf,
    remove,
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
  const digest = createHash('sha256');
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new ArtifactTooLarge(`more than ${maxBytes} bytes`);
    digest.update(chunk);
    await onDisk(writeFully(file, chunk));
  }
  await onDisk(file.sync());
  return { bytes, checksum: digest.digest('hex') };
}

async function writeFully(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let from = 0; from < chunk.length; ) from += (await file.write(chunk, from)).bytesWritten;
}

/** A new name is durable only after its folder is synced. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

/** A full or missing disk is a temporary fault: the operation can be retried. */
const onDisk = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw new StoreUnavailable(`artifact folder: ${(error as NodeJS.ErrnoException).code ?? error}`);
  });
