import { SESSION_SKEW_MS } from '../../domain/protocol.ts';
import type { SessionToken } from '../../domain/session.ts';
import type { Sizes } from '../../domain/sizes.ts';
import type { EpochMs } from '../../domain/values.ts';

/** More sign-ins than this within the life of a token, and the next ones wait. */
const MAX_REMEMBERED = 500_000;
/** Of one device, so that none takes the others' room; four sign-ins a second, and more than any has a use for. */
const MAX_OF_DEVICE = 1_000;

/**
 * Session tokens that opened a session, for as long as they would count as fresh: bounds how many the store has to keep,
 * and refuses one that is used twice at the same time. The store knows those of earlier processes.
 */
export class UsedTokens {
  readonly #until = new Map<string, { deviceId: string; at: EpochMs }>();
  readonly #byDevice = new Map<string, number>();

  sizes(): Sizes {
    return { mqtt_used_tokens: this.#until.size, mqtt_used_token_devices: this.#byDevice.size };
  }

  /** False where the token was used before, or where no more can be remembered, of its device or in all. */
  use({ clientId, deviceId, timestamp }: SessionToken, now: EpochMs): boolean {
    this.#forget(now);
    if (this.#until.has(clientId) || this.#until.size >= MAX_REMEMBERED) return false;
    const own = this.#byDevice.get(deviceId) ?? 0;
    if (own >= MAX_OF_DEVICE) return false;
    this.#until.set(clientId, { deviceId, at: timestamp + SESSION_SKEW_MS });
    this.#byDevice.set(deviceId, own + 1);
    return true;
  }

  /** Oldest first, up to the first that still counts: a later one stays at most twice its life. */
  #forget(now: EpochMs): void {
    for (const [clientId, { deviceId, at }] of this.#until) {
      if (at >= now) return;
      this.#until.delete(clientId);
      const others = (this.#byDevice.get(deviceId) as number) - 1;
      if (others > 0) this.#byDevice.set(deviceId, others);
      else this.#byDevice.delete(deviceId);
    }
  }
}
