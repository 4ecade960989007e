import { type FileHandle, open, rename, rm } from 'node:fs/promises';

/** Destination of a download that is not verified yet. */
export interface DownloadSink {
  write(chunk: Buffer): Promise<void>;
  /** Removes everything written so far: the download starts from the first byte. */
  restart(): Promise<void>;
  /** Called after verification. Resolves with the content if it was kept in memory, else with null. */
  commit(): Promise<Buffer | null>;
  /** Called when the download or its verification failed. */
  discard(): Promise<void>;
}

export function memorySink(): DownloadSink {
  let chunks: Buffer[] = [];
  return {
    write: async (chunk) => void chunks.push(chunk),
    restart: async () => {
      chunks = [];
    },
    commit: async () => Buffer.concat(chunks),
    discard: async () => {
      chunks = [];
    },
  };
}

/** Keeps no content. */
export const discardingSink: DownloadSink = {
  write: async () => {},
  restart: async () => {},
  commit: async () => null,
  discard: async () => {},
};

/** Writes to `<path>.part` and renames it to `path` after verification and fsync. */
export async function fileSink(path: string): Promise<DownloadSink> {
  const part = `${path}.part`;
  const file: FileHandle = await open(part, 'w', 0o600);
  let size = 0;
  return {
    async write(chunk) {
      for (let from = 0; from < chunk.length; ) {
        from += (await file.write(chunk, from, chunk.length - from, size + from)).bytesWritten;
      }
      size += chunk.length;
    },
    async restart() {
      await file.truncate(0);
      size = 0;
    },
    async commit() {
      await file.sync();
      await file.close();
      await rename(part, path);
      return null;
    },
    async discard() {
      await file.close();
      await rm(part, { force: true });
    },
  };
}
