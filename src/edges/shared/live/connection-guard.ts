import { referenceOf } from '../../../domain/clock.ts';
import type { Refusal } from '../../../domain/refusals.ts';
import type { Uuid } from '../../../domain/values.ts';
import { refusalOf } from '../../../operations/faults.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import { checkExpiry, recheckAccess, revokedRefusal, suspendedRefusal } from './authorization.ts';
import type { Subscription } from './subscription.ts';

/** Somebody whose connection lasts. */
export interface GuardedConnection {
  /** Null until they are known. */
  readonly caller: Caller | null;
  /** What they hear now. */
  readonly subscription: Subscription;
}

export interface ConnectionGuard {
  /** Ends whoever's credential is over by itself; to be called more often than once a second (contract §6). */
  endExpired(): void;
  close(): void;
}

/** Ends the connections of those who may stay no longer, as soon as that is so. */
export function guardConnections<G extends GuardedConnection>(
  services: Pick<Services, 'actors' | 'clock' | 'apiKeys' | 'log' | 'revocations' | 'users'>,
  guests: () => Iterable<G>,
  end: (guest: G, refusal: Refusal) => void,
): ConnectionGuard {
  const { actors, clock, apiKeys, log, revocations, users } = services;

  function endWhere(why: (caller: Caller, interest: Subscription) => Refusal | null): void {
    for (const guest of guests()) {
      const refusal = guest.caller === null ? null : why(guest.caller, guest.subscription);
      if (refusal !== null) end(guest, refusal);
    }
  }

  async function lookAgain(userId: Uuid): Promise<void> {
    const theirs = [...guests()].filter(({ caller }) => caller?.user?.id === userId);
    if (theirs.length === 0) return;
    const user = await users.get(userId);
    for (const guest of theirs) {
      const refusal = guest.caller === null ? null : recheckAccess(guest.caller, guest.subscription, user);
      if (refusal !== null) end(guest, refusal);
    }
  }

  const ears = [
    actors.subscribe('tenant.changed', ({ tenantId, suspended: isSuspended }) => {
      if (!isSuspended) return;
      // Whoever looks into it from outside goes on.
      endWhere((caller, asked) =>
        asked.tenantId === null && caller.tenantId === tenantId ? suspendedRefusal() : null,
      );
    }),
    apiKeys.subscribe((prefix) => endWhere(({ principal }) => (principal.key === prefix ? revokedRefusal() : null))),
    revocations.subscribe((id) => endWhere(({ token }) => (token?.id === id ? revokedRefusal() : null))),
    users.subscribe((id) => {
      lookAgain(id).catch((thrown: unknown) => {
        log.error({ err: thrown }, 'a user could not be looked at again');
        endWhere(({ user, requestId }) => (user?.id === id ? refusalOf(thrown, log, { request_id: requestId }) : null));
      });
    }),
  ];

  return {
    endExpired() {
      const time = referenceOf(clock);
      endWhere((caller) => checkExpiry(caller, time));
    },
    close() {
      for (const stop of ears) stop();
    },
  };
}
