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

/** Positions of the first and the last byte, from 0. */
export interface ByteRange {
  start: number;
  /** Inclusive. */
  end: number;
}

/** A complete artifact. It holds no file and no connection while it is not read. */
export interface StoredArtifact {
  bytes: number;
  /**
   * The bytes of a range within the artifact. Reads the next chunk when the consumer asks for it, and holds no database
   * connection meanwhile. Throws `StoreUnavailable`, also if the artifact is removed before the last byte was read.
   */
  read(range: ByteRange): AsyncIterable<Uint8Array>;
}

/** Contents of uploaded artifacts, independent of their owner. They are immutable: each upload has a new name. */
export interface ArtifactFiles {
  /**
   * Durable when it resolves. The name was registered by `FirmwareStore.beginArtifact` and has no content yet. Holds
   * one chunk in memory at a time. Throws `ArtifactTooLarge`, `StoreUnavailable`, or the error of the source; the
   * content is removed then.
   */
  write(name: Uuid, source: AsyncIterable<Uint8Array>, maxBytes: number): Promise<WrittenArtifact>;
  /** Null if the artifact does not exist or is not complete. */
  open(name: Uuid): Promise<StoredArtifact | null>;
  /** Succeeds if there is no content. The registration remains. */
  remove(name: Uuid): Promise<void>;
}
