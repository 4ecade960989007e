import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type ArtifactFiles, ArtifactTooLarge, type WrittenArtifact } from './contract/artifact-files.ts';
import { StoreUnavailable } from './contract.ts';

/**
 * Artifacts as files in a folder, which is made with the first of them. A file has its name only once it is whole and on
 * the disk: what is being written ends in `.part`.
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
        const made = await onDisk(mkdir(folder, { recursive: true, mode: 0o700 }));
        if (made !== undefined) await onDisk(syncFolder(dirname(made)));
        const file = await onDisk(open(partOf(name), 'wx', 0o600));
        const written = await copy(source, file, maxBytes).finally(() => file.close());
        await onDisk(rename(partOf(name), pathOf(name)));
        await onDisk(syncFolder(folder));
        return written;
      } catch (error) {
        // Where not even that can be done, why it failed is what is told.
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

/** A new name is durable only when its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  await handle.sync().finally(() => handle.close());
}

/** A disk that is full or gone is a store that is away: asked again later it may do it. */
const onDisk = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw new StoreUnavailable(`the folder of artifacts: ${(error as NodeJS.ErrnoException).code ?? error}`);
  });
