import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import { SESSION_SKEW_MS } from '../../protocol/constants.ts';
import type { SessionToken } from '../../protocol/session-token.ts';

/** As long as a token with a correct timestamp is fresh; the store refuses later reuse. */
const REMEMBERED_MS = SESSION_SKEW_MS;
/** Limit of sign-ins within that time; further ones are refused until older tokens expire. */
const MAX_REMEMBERED = 500_000;
/**
 * The same per device, so that one device cannot use up the limit of all; four sign-ins a second are more than needed.
 */
const MAX_PER_DEVICE = 1_000;

/**
 * Session tokens that opened a session in the last 120 s. Bounds how many the store has to keep, and refuses a token
 * that is used twice at the same time. The store has all fresh tokens.
 */
export class UsedTokens {
  /** Ordered by `usedAt`: a token's timestamp may be far from the service's time while a clock is corrected. */
  readonly #used = new Map<string, { deviceId: string; usedAt: EpochMs }>();
  readonly #byDevice = new Map<string, number>();

  sizes(): CollectionSizes {
    return { mqtt_used_tokens: this.#used.size, mqtt_used_token_devices: this.#byDevice.size };
  }

  /** False if the token was used before, or if the limit per device or in total is reached. */
  markUsed({ clientId, deviceId }: SessionToken, now: EpochMs): boolean {
    this.#removeExpired(now);
    if (this.#used.has(clientId) || this.#used.size >= MAX_REMEMBERED) return false;
    const ofDevice = this.#byDevice.get(deviceId) ?? 0;
    if (ofDevice >= MAX_PER_DEVICE) return false;
    this.#used.set(clientId, { deviceId, usedAt: now });
    this.#byDevice.set(deviceId, ofDevice + 1);
    return true;
  }

  #removeExpired(now: EpochMs): void {
    for (const [clientId, { deviceId, usedAt }] of this.#used) {
      if (now - usedAt <= REMEMBERED_MS) return;
      this.#used.delete(clientId);
      const remaining = (this.#byDevice.get(deviceId) as number) - 1;
      if (remaining > 0) this.#byDevice.set(deviceId, remaining);
      else this.#byDevice.delete(deviceId);
    }
  }
}
