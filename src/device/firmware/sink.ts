import { type FileHandle, open, rename, rm } from 'node:fs/promises';

/** Where a download goes until it is verified. */
export interface DownloadSink {
  write(chunk: Buffer): Promise<void>;
  /** Forgets what was written: the download starts over. */
  restart(): Promise<void>;
  /** It is verified. Answers the content where that was kept in memory. */
  commit(): Promise<Buffer | null>;
  /** It is not. */
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

/** Keeps nothing. */
export const discardingSink: DownloadSink = {
  write: async () => {},
  restart: async () => {},
  commit: async () => null,
  discard: async () => {},
};

/** A file that has its name only when it is verified and on the disk; until then it ends in `.part`. */
export async function fileSink(path: string): Promise<DownloadSink> {
  const part = `${path}.part`;
  const file: FileHandle = await open(part, 'w', 0o600);
  let at = 0;
  return {
    async write(chunk) {
      for (let from = 0; from < chunk.length; ) {
        from += (await file.write(chunk, from, chunk.length - from, at + from)).bytesWritten;
      }
      at += chunk.length;
    },
    async restart() {
      await file.truncate(0);
      at = 0;
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
