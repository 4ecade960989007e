import type { Uuid } from '../../domain/values.ts';

/** Size and checksum of a stored stream. */
export interface WrittenArtifact {
  bytes: number;
  /** SHA-256, hex. */
  checksum: string;
}

/** The stream exceeded its size limit. */
export class ArtifactTooLarge extends Error {
  override name = 'ArtifactTooLarge';
}

/** Files of uploaded artifacts, independent of their owner. They are immutable: each upload is a new file. */
export interface ArtifactFiles {
  /**
   * Durable when it resolves. Holds one chunk in memory at a time. Throws `ArtifactTooLarge`, `StoreUnavailable`, or
   * the error of the source; the file is removed then.
   */
  write(name: Uuid, source: AsyncIterable<Uint8Array>, maxBytes: number): Promise<WrittenArtifact>;
  /** Absolute path; does not check that the file exists. */
  pathOf(name: Uuid): string;
  /** Succeeds if the file does not exist. Open readers can continue. */
  remove(name: Uuid): Promise<void>;
}
