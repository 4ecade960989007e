import type { CognitionProposal } from '#proto/cognition/v1/runtime_pb.js';
import { backoffDelay } from '../../domain/backoff.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import { type CallHandle, SidecarCall } from './call.ts';
import type { SidecarLimits } from './sidecar-limits.ts';

/** Handles one connected stream. */
export interface StreamHandler {
  onProposal(proposal: CognitionProposal, bytes: number): void;
  /** The stream is closed; later writes are discarded. */
  onClose(): void;
}

export interface DiallerParts {
  /** `host:port`; null while the address is unknown. */
  address(): string | null;
  /** The token that the sidecar requires; null, or missing, if it requires none. */
  token?(): string | null;
  limits: SidecarLimits;
  /** After it has ended nothing is dialled, sent or received. */
  lease: Pick<Lease, 'valid'>;
  log: Log;
  /** From 0 to below 1. */
  random?(): number;
  handleStream(call: CallHandle): StreamHandler;
  /** True when the sidecar accepts a stream, false when that stream closes. */
  onConnectionChange?(connected: boolean): void;
}

const WARN_AFTER_FAILURES = 4;

/** Keeps one stream to the sidecar open and reconnects with back-off until `close()`. Dials when it is created. */
export class Dialler {
  readonly #parts: DiallerParts;
  #current: Pick<CallHandle, 'cancel'> | null = null;
  #connected = false;
  #closed = false;
  /** Failed attempts since the last stable connection. */
  #failed = 0;
  #pause: NodeJS.Timeout | null = null;

  constructor(parts: DiallerParts) {
    this.#parts = parts;
    this.#dial();
  }

  connected(): boolean {
    return this.#connected;
  }

  /** Dials immediately if the dialler is in a back-off pause. */
  retryNow(): void {
    if (this.#pause === null || this.#closed) return;
    clearTimeout(this.#pause);
    this.#dial();
  }

  close(): void {
    this.#closed = true;
    if (this.#pause !== null) clearTimeout(this.#pause);
    this.#current?.cancel('the service is shutting down');
  }

  #dial(): void {
    const { address, limits, lease } = this.#parts;
    this.#pause = null;
    if (this.#closed || this.#current !== null || !lease.valid()) return;
    const to = address();
    // The sidecar process is starting. Its supervisor calls `retryNow` when it listens, and logs why it does not.
    if (to === null) this.#dialAfter(limits.backoff.maxMs);
    else this.#current = this.#call(to);
  }

  #call(address: string): Pick<CallHandle, 'cancel'> {
    const { limits, lease, handleStream, token } = this.#parts;
    let handler: StreamHandler | null = null;
    let acceptedAt: number | null = null;
    return new SidecarCall({ address, token: token?.() ?? null }, limits, lease, {
      onReady(stream) {
        handler = handleStream(stream);
      },
      onAccepted: () => {
        acceptedAt = performance.now();
        this.#onAccepted(address);
      },
      onProposal: (proposal, bytes) => handler?.onProposal(proposal, bytes),
      onClose: (why) => {
        this.#current = null;
        handler?.onClose();
        this.#onClosed(address, why, acceptedAt);
      },
    });
  }

  #onAccepted(address: string): void {
    const { log, onConnectionChange } = this.#parts;
    this.#connected = true;
    log.info({ address }, 'sidecar connected');
    onConnectionChange?.(true);
  }

  #onClosed(address: string, why: string, acceptedAt: number | null): void {
    const { limits, log, onConnectionChange } = this.#parts;
    if (acceptedAt !== null && performance.now() - acceptedAt >= limits.stableAfterMs) this.#failed = 0;
    if (this.#connected) {
      this.#connected = false;
      if (!this.#closed) log.warn({ address, why }, 'sidecar disconnected');
      onConnectionChange?.(false);
    }
    this.#scheduleRetry(why);
  }

  #scheduleRetry(why: string): void {
    const { limits, lease, log, random } = this.#parts;
    if (this.#closed || !lease.valid()) return;
    this.#failed += 1;
    const ms = backoffDelay(this.#failed, limits.backoff, 'half', random);
    // The first failures are expected while the sidecar starts.
    if (this.#failed === WARN_AFTER_FAILURES) log.warn({ why }, 'sidecar unreachable; retrying with back-off');
    else log.debug({ why, pause_ms: Math.round(ms) }, 'sidecar connection failed; retrying');
    this.#dialAfter(ms);
  }

  #dialAfter(ms: number): void {
    this.#pause = setTimeout(() => this.#dial(), ms);
    this.#pause.unref();
  }
}
