import type { Uuid } from '../../domain/values.ts';

/** What a stream held. */
export interface WrittenArtifact {
  bytes: number;
  /** SHA-256, hex. */
  checksum: string;
}

/** More came than may. */
export class ArtifactTooLarge extends Error {
  override name = 'ArtifactTooLarge';
}

/** The artifacts' files, whatever they belong to. They are never changed: another upload is another file. */
export interface ArtifactFiles {
  /**
   * Durable when it resolves. Holds one chunk in memory at a time. Throws `ArtifactTooLarge`, `StoreUnavailable`, and what
   * the source throws; then nothing is left.
   */
  write(name: Uuid, source: AsyncIterable<Uint8Array>, maxBytes: number): Promise<WrittenArtifact>;
  /** Absolute; whether there is such a file is not looked at. */
  pathOf(name: Uuid): string;
  /** Also where there is none. Who reads it just then reads on. */
  remove(name: Uuid): Promise<void>;
}
