import { referenceOf } from '../../../domain/clock.ts';
import type { Refusal } from '../../../domain/refusals.ts';
import type { Uuid } from '../../../domain/values.ts';
import { refusalOf } from '../../../operations/faults.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import { chainOf } from '../../../services/tokens.ts';
import {
  checkCurrentAccess,
  checkExpiry,
  endBy,
  recheckAccess,
  revokedRefusal,
  suspendedRefusal,
} from './authorization.ts';
import type { Subscription } from './subscription.ts';

/** A long-lived connection. */
export interface GuardedConnection {
  /** Null until authenticated. */
  readonly caller: Caller | null;
  readonly subscription: Subscription;
}

/** Reason of the close frame (1001) for clients of a tenant that another node serves from now on. */
export const TENANT_MOVED = 'the tenant is served by another node; connect again';

/** The tenant that a connection is about; null until it is authenticated. */
export const tenantOfConnection = ({ caller, subscription }: GuardedConnection): Uuid | null =>
  subscription.tenantId ?? caller?.tenantId ?? null;

export interface ConnectionGuard {
  /**
   * Ends connections whose credential has expired, and checks all connections against the store while invalidations
   * may be missed and once afterwards; to be called more than once a second (contract §6).
   */
  endExpired(): void;
  close(): void;
}

/** Connections that are checked at a time, so that the store's connections remain available to requests. */
const CHECKED_AT_ONCE = 4;

/** Ends connections as soon as a change of tenant, key, token or user makes them unauthorized. */
export function guardConnections<C extends GuardedConnection>(
  services: Pick<Services, 'actors' | 'clock' | 'apiKeys' | 'invalidations' | 'log' | 'revocations' | 'users'>,
  connections: () => Iterable<C>,
  end: (connection: C, refusal: Refusal) => void,
): ConnectionGuard {
  const { actors, clock, apiKeys, invalidations, log, revocations, users } = services;

  function endWhere(check: (caller: Caller, subscription: Subscription) => Refusal | null): void {
    for (const connection of connections()) {
      const refusal = connection.caller === null ? null : check(connection.caller, connection.subscription);
      if (refusal !== null) end(connection, refusal);
    }
  }

  async function recheckUser(userId: Uuid): Promise<void> {
    const affected = [...connections()].filter(({ caller }) => caller?.user?.id === userId);
    if (affected.length === 0) return;
    const user = await users.get(userId);
    for (const connection of affected) {
      const refusal =
        connection.caller === null ? null : recheckAccess(connection.caller, connection.subscription, user);
      if (refusal !== null) end(connection, refusal);
    }
  }

  async function recheck({ caller, subscription }: GuardedConnection): Promise<Refusal | null> {
    return caller === null ? null : checkCurrentAccess(services, caller, subscription);
  }

  async function recheckAll(): Promise<void> {
    const waiting = [...connections()];
    const work = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const refusal = await recheck(next);
        if (refusal !== null) end(next, refusal);
      }
    };
    await Promise.all(Array.from({ length: CHECKED_AT_ONCE }, work));
  }

  let checkedGaps = invalidations.gaps;
  let checking = false;
  function checkMissed(): void {
    const { gaps } = invalidations;
    const current = invalidations.isCurrent();
    if (checking || (current && gaps === checkedGaps)) return;
    checking = true;
    recheckAll()
      .then(
        () => {
          if (current) checkedGaps = gaps;
        },
        (thrown: unknown) => log.warn({ err: thrown }, 'check of open connections failed; retrying'),
      )
      .finally(() => {
        checking = false;
      });
  }

  const unsubscribes = [
    actors.subscribe('tenant.changed', ({ tenantId, suspended: isSuspended }) => {
      if (!isSuspended) return;
      // Platform operators that named the tenant stay connected.
      endWhere((caller, subscription) =>
        subscription.tenantId === null && caller.tenantId === tenantId ? suspendedRefusal() : null,
      );
    }),
    apiKeys.subscribe((prefix, endsAt) =>
      endWhere((caller) => {
        if (caller.principal.key !== prefix) return null;
        if (endsAt === null) return revokedRefusal();
        endBy(caller, endsAt);
        return null;
      }),
    ),
    revocations.subscribe((id) =>
      endWhere(({ token }) => (token !== null && chainOf(token).includes(id) ? revokedRefusal() : null)),
    ),
    users.subscribe((id) => {
      recheckUser(id).catch((thrown: unknown) => {
        log.error({ err: thrown }, 'user recheck failed; ending connections of the user');
        endWhere(({ user, requestId }) => (user?.id === id ? refusalOf(thrown, log, { request_id: requestId }) : null));
      });
    }),
  ];

  return {
    endExpired() {
      const time = referenceOf(clock);
      endWhere((caller) => checkExpiry(caller, time));
      checkMissed();
    },
    close() {
      for (const unsubscribe of unsubscribes) unsubscribe();
    },
  };
}
