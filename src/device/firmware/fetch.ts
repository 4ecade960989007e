import { createHash, type Hash, timingSafeEqual } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Milliseconds } from '../../domain/values.ts';
import { AddressRefused } from './address-policy.ts';
import {
  DownloadRefused,
  type DownloadResponse,
  RangeNotSatisfiable,
  RetryLater,
  requestArtifact,
} from './download.ts';
import { type DownloadSink, discardingSink, fileSink, memorySink } from './sink.ts';

export { AddressRefused, DownloadRefused };

/** `url` and `checksum` as an `update_firmware` command brings them. */
export interface FirmwareWanted {
  url: string;
  /** SHA-256, hex. */
  checksum: string;
  /** The file to make; without one the content is kept in memory. */
  file?: string;
  /** Verified and thrown away, for who has nowhere to install it. */
  discard?: true;
  /** Default 64 MiB, which is all that the service takes. */
  maxBytes?: number;
  /**
   * Host names that may stand for loopback and private addresses, as the service's own name may. Any other that does is
   * refused; link-local and multicast addresses are refused in any case.
   */
  trustedHosts?: readonly string[];
  /** Certificates to trust instead of the usual ones. */
  ca?: string | Buffer;
  /** Tries in a row that bring nothing; one that brings something begins the count anew. Default 5. */
  tries?: number;
  /** Without a byte for so long a connection counts as broken. Default 15 s. */
  silenceMs?: Milliseconds;
  /** All of it. Default 15 min. */
  timeoutMs?: Milliseconds;
  /** Between two tries, doubled each time up to 30 s. Default 1 s. */
  pauseMs?: Milliseconds;
  signal?: AbortSignal;
  progress?(received: number, total: number | null): void;
}

export interface Firmware {
  bytes: number;
  /** Null where a file was made, or it was thrown away. */
  content: Buffer | null;
}

/** What was fetched is not what the command names. */
export class ChecksumMismatch extends Error {
  override name = 'ChecksumMismatch';
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_PAUSE_MS = 30_000;

/**
 * Fetches firmware and verifies it. A connection that breaks is taken up where it stopped, where the server can. Throws
 * `ChecksumMismatch`, `DownloadRefused`, `AddressRefused`, or why the last try failed; then nothing is left.
 */
export async function fetchFirmware(wanted: FirmwareWanted): Promise<Firmware> {
  if (!/^[0-9a-f]{64}$/i.test(wanted.checksum)) throw new ChecksumMismatch('the checksum is no SHA-256');
  const sink = wanted.discard ? discardingSink : wanted.file === undefined ? memorySink() : await fileSink(wanted.file);
  try {
    const { digest, bytes } = await new Download(wanted, sink).fetchAll();
    if (!timingSafeEqual(digest, Buffer.from(wanted.checksum, 'hex'))) {
      throw new ChecksumMismatch('the checksum does not match');
    }
    return { bytes, content: await sink.commit() };
  } catch (error) {
    await sink.discard().catch(() => {});
    throw error;
  }
}

class Download {
  readonly #wanted: FirmwareWanted;
  readonly #sink: DownloadSink;
  readonly #maxBytes: number;
  #hash: Hash = createHash('sha256');
  #received = 0;
  #etag: string | null = null;

  constructor(wanted: FirmwareWanted, sink: DownloadSink) {
    this.#wanted = wanted;
    this.#sink = sink;
    this.#maxBytes = wanted.maxBytes ?? MAX_BYTES;
  }

  async fetchAll(): Promise<{ digest: Buffer; bytes: number }> {
    const { tries = 5, timeoutMs = 900_000, pauseMs = 1_000, signal } = this.#wanted;
    const over = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal === undefined ? [] : [signal])]);
    for (let failures = 0; ; ) {
      const before = this.#received;
      try {
        await this.#try(over);
        return { digest: this.#hash.digest(), bytes: this.#received };
      } catch (error) {
        if (error instanceof RangeNotSatisfiable) this.#etag = null;
        failures = this.#received > before ? 1 : failures + 1;
        if (isFinal(error) || over.aborted || failures >= tries) throw error;
        // All of it ends before; a timer that is set too far ahead fires at once.
        const asked = error instanceof RetryLater ? Math.min(error.afterMs, timeoutMs) : 0;
        const wait = Math.max(asked, Math.min(pauseMs * 2 ** (failures - 1), MAX_PAUSE_MS));
        await pause(wait, undefined, { signal: over });
      }
    }
  }

  async #try(signal: AbortSignal): Promise<void> {
    const { url, trustedHosts = [], ca, silenceMs = 15_000 } = this.#wanted;
    // Without a tag nobody knows that the rest would be the rest of the same.
    if (this.#etag === null) await this.#restart();
    const answer = await requestArtifact({
      ...{ url, trustedHosts, silenceMs, signal, from: this.#received, etag: this.#etag },
      ...(ca !== undefined && { ca }),
    });
    await this.#take(answer);
  }

  async #take({ from, total, etag, body }: DownloadResponse): Promise<void> {
    if (total !== null && total > this.#maxBytes) {
      body.destroy();
      throw tooLarge(this.#maxBytes);
    }
    if (from !== this.#received) await this.#restart();
    this.#etag = etag;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      this.#received += chunk.length;
      if (this.#received > this.#maxBytes) throw tooLarge(this.#maxBytes);
      this.#hash.update(chunk);
      await this.#sink.write(chunk);
      this.#wanted.progress?.(this.#received, total);
    }
    if (!body.complete || (total !== null && this.#received < total)) throw new Error('the connection broke');
  }

  async #restart(): Promise<void> {
    if (this.#received === 0) return;
    await this.#sink.restart();
    this.#hash = createHash('sha256');
    this.#received = 0;
  }
}

const isFinal = (error: unknown): boolean => error instanceof DownloadRefused || error instanceof AddressRefused;

const tooLarge = (maxBytes: number) => new DownloadRefused(`the artifact is larger than ${maxBytes} bytes`);
