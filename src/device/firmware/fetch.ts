import { createHash, type Hash, timingSafeEqual } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { backoffDelay } from '../../domain/backoff.ts';
import type { Milliseconds } from '../../domain/values.ts';
import { AddressRefused } from './address-policy.ts';
import {
  DownloadRefused,
  type DownloadResponse,
  RangeNotSatisfiable,
  RetryLater,
  requestArtifact,
} from './download.ts';
import { type FirmwareSignatureCheck, SignatureRefused, verifyFirmwareSignature } from './signature.ts';
import { type DownloadSink, discardingSink, fileSink, memorySink } from './sink.ts';

export { AddressRefused, DownloadRefused, type FirmwareSignatureCheck, SignatureRefused };

/** Options of `fetchFirmware`. `url` and `checksum` are the parameters of the `update_firmware` command. */
export interface FirmwareWanted {
  url: string;
  /** SHA-256, hex. */
  checksum: string;
  /**
   * Requires a signature by a key that was built into the device, and verifies it before the download. Without it the
   * service, and everybody who can act in its name, decides what is installed.
   */
  signed?: FirmwareSignatureCheck;
  /** Path of the file to create. Default: the content is returned as a buffer. */
  file?: string;
  /** Verifies the content without keeping it, for simulated devices. */
  discard?: true;
  /** Default 64 MiB, the service's upload limit. */
  maxBytes?: number;
  /**
   * Host names that may resolve to loopback and private addresses, such as the host of the service. Other host names
   * may not. Link-local and multicast addresses are always refused.
   */
  trustedHosts?: readonly string[];
  /** CA certificates to trust instead of the default ones. */
  ca?: string | Buffer;
  /**
   * Consecutive attempts without a received byte before giving up. An attempt that received data resets the count.
   * Default 5.
   */
  tries?: number;
  /** A connection that receives no byte for this long has failed. Default 15 s. */
  silenceMs?: Milliseconds;
  /** Timeout for the download including retries. Default 15 min. */
  timeoutMs?: Milliseconds;
  /** Initial delay between attempts, doubled after each up to 30 s. Default 1 s. */
  pauseMs?: Milliseconds;
  signal?: AbortSignal;
  /** Called for each received chunk. `total` is null if the server does not send the size. */
  progress?(received: number, total: number | null): void;
}

export interface Firmware {
  bytes: number;
  /** Null if the content was written to `file` or discarded. */
  content: Buffer | null;
}

/** The SHA-256 of the downloaded content differs from `checksum`, or `checksum` is malformed. */
export class ChecksumMismatch extends Error {
  override name = 'ChecksumMismatch';
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_PAUSE_MS = 30_000;

/**
 * Downloads firmware and verifies its checksum. A broken download is resumed with `Range` and `If-Range` if the server
 * supports it. Throws `SignatureRefused`, `ChecksumMismatch`, `DownloadRefused`, `AddressRefused`, or the error of the last
 * attempt; in all these cases no file is left behind.
 */
export async function fetchFirmware(wanted: FirmwareWanted): Promise<Firmware> {
  if (!/^[0-9a-f]{64}$/i.test(wanted.checksum)) throw new ChecksumMismatch('the checksum must be a SHA-256 in hex');
  const size = wanted.signed === undefined ? null : verifyFirmwareSignature(wanted.signed, wanted.checksum);
  const sink = wanted.discard ? discardingSink : wanted.file === undefined ? memorySink() : await fileSink(wanted.file);
  try {
    const { digest, bytes } = await new Download(wanted, sink, size).fetchAll();
    if (!timingSafeEqual(digest, Buffer.from(wanted.checksum, 'hex'))) {
      throw new ChecksumMismatch('the checksum does not match');
    }
    return { bytes, content: await sink.commit() };
  } catch (error) {
    await sink.discard().catch(() => {});
    throw error;
  }
}

/** One download with its retries. */
class Download {
  readonly #wanted: FirmwareWanted;
  readonly #sink: DownloadSink;
  readonly #maxBytes: number;
  #hash: Hash = createHash('sha256');
  #received = 0;
  #etag: string | null = null;

  /** `size`: the signed size of the file, which bounds the download; null without a signature. */
  constructor(wanted: FirmwareWanted, sink: DownloadSink, size: number | null) {
    this.#wanted = wanted;
    this.#sink = sink;
    this.#maxBytes = Math.min(wanted.maxBytes ?? MAX_BYTES, size ?? Number.POSITIVE_INFINITY);
  }

  async fetchAll(): Promise<{ digest: Buffer; bytes: number }> {
    const { tries = 5, timeoutMs = 900_000, pauseMs = 1_000, signal: cancelled } = this.#wanted;
    const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(cancelled === undefined ? [] : [cancelled])]);
    for (let failures = 0; ; ) {
      const before = this.#received;
      try {
        await this.#attempt(signal);
        return { digest: this.#hash.digest(), bytes: this.#received };
      } catch (error) {
        if (error instanceof RangeNotSatisfiable) this.#etag = null;
        failures = this.#received > before ? 1 : failures + 1;
        if (isFinal(error) || signal.aborted || failures >= tries) throw error;
        // Capped: a timer of more than 2^31 ms would fire at once.
        const retryAfterMs = error instanceof RetryLater ? Math.min(error.afterMs, timeoutMs) : 0;
        const wait = Math.max(retryAfterMs, backoffDelay(failures, { firstMs: pauseMs, maxMs: MAX_PAUSE_MS }));
        await pause(wait, undefined, { signal });
      }
    }
  }

  async #attempt(signal: AbortSignal): Promise<void> {
    const { url, trustedHosts = [], ca, silenceMs = 15_000 } = this.#wanted;
    // Without an entity tag the rest could belong to a different artifact.
    if (this.#etag === null) await this.#restart();
    const response = await requestArtifact({
      ...{ url, trustedHosts, silenceMs, signal, from: this.#received, etag: this.#etag },
      ...(ca !== undefined && { ca }),
    });
    await this.#receiveBody(response);
  }

  async #receiveBody({ from, total, etag, body }: DownloadResponse): Promise<void> {
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
    if (!body.complete || (total !== null && this.#received < total)) throw new Error('the connection was lost');
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
