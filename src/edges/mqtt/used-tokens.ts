import { SESSION_SKEW_MS } from '../../domain/protocol.ts';
import type { SessionToken } from '../../domain/session.ts';
import type { EpochMs } from '../../domain/values.ts';

/** More sign-ins than this within the life of a token, and the next ones wait. */
const MAX_REMEMBERED = 500_000;

/** Session tokens that opened a session, for as long as they would count as fresh: a token works once. */
export class UsedTokens {
  readonly #until = new Map<string, EpochMs>();

  /** False where the token was used before, or where no more can be remembered. */
  use(token: SessionToken, now: EpochMs): boolean {
    this.#forget(now);
    if (this.#until.has(token.clientId) || this.#until.size >= MAX_REMEMBERED) return false;
    this.#until.set(token.clientId, token.timestamp + SESSION_SKEW_MS);
    return true;
  }

  /** Oldest first, up to the first that still counts: a later one stays at most twice its life. */
  #forget(now: EpochMs): void {
    for (const [clientId, until] of this.#until) {
      if (until >= now) return;
      this.#until.delete(clientId);
    }
  }
}
