import { createHash } from 'node:crypto';
import { ArtifactTooLarge, type WrittenArtifact } from './contract/artifact-files.ts';

/** Size and checksum of a stream while it is written. */
export class ArtifactDigest {
  readonly #hash = createHash('sha256');
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Throws `ArtifactTooLarge`. */
  add(chunk: Uint8Array): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) throw new ArtifactTooLarge(`more than ${this.#maxBytes} bytes`);
    this.#hash.update(chunk);
  }

  /** Called once, after the last chunk. */
  finish(): WrittenArtifact {
    return { bytes: this.#bytes, checksum: this.#hash.digest('hex') };
  }
}
