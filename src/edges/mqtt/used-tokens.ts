import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import { SESSION_SKEW_MS } from '../../protocol/constants.ts';
import type { SessionToken } from '../../protocol/session-token.ts';

/** As long as a token with the right time is fresh; the store refuses one that is used again later. */
const REMEMBERED_MS = SESSION_SKEW_MS;
/** More sign-ins than this within that time, and the next ones wait. */
const MAX_REMEMBERED = 500_000;
/** Of one device, so that none takes the others' room; four sign-ins a second, and more than any has a use for. */
const MAX_OF_DEVICE = 1_000;

/**
 * Session tokens that opened a session in the last 120 s: bounds how many the store has to keep, and refuses one that is
 * used twice at the same time. The store knows all that are fresh.
 */
export class UsedTokens {
  /** In the order of `usedAt`: a token's own time may be far off the service's while a clock is corrected. */
  readonly #used = new Map<string, { deviceId: string; usedAt: EpochMs }>();
  readonly #byDevice = new Map<string, number>();

  sizes(): CollectionSizes {
    return { mqtt_used_tokens: this.#used.size, mqtt_used_token_devices: this.#byDevice.size };
  }

  /** False where the token was used before, or where no more can be remembered, of its device or in all. */
  markUsed({ clientId, deviceId }: SessionToken, now: EpochMs): boolean {
    this.#forget(now);
    if (this.#used.has(clientId) || this.#used.size >= MAX_REMEMBERED) return false;
    const own = this.#byDevice.get(deviceId) ?? 0;
    if (own >= MAX_OF_DEVICE) return false;
    this.#used.set(clientId, { deviceId, usedAt: now });
    this.#byDevice.set(deviceId, own + 1);
    return true;
  }

  #forget(now: EpochMs): void {
    for (const [clientId, { deviceId, usedAt }] of this.#used) {
      if (now - usedAt <= REMEMBERED_MS) return;
      this.#used.delete(clientId);
      const others = (this.#byDevice.get(deviceId) as number) - 1;
      if (others > 0) this.#byDevice.set(deviceId, others);
      else this.#byDevice.delete(deviceId);
    }
  }
}
