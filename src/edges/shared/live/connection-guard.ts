import { referenceOf } from '../../../domain/clock.ts';
import type { Refusal } from '../../../domain/refusals.ts';
import type { Uuid } from '../../../domain/values.ts';
import { refusalOf } from '../../../operations/faults.ts';
import type { Caller, Services } from '../../../operations/operation.ts';
import { checkExpiry, recheckAccess, revokedRefusal, suspendedRefusal } from './authorization.ts';
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
  /** Ends connections whose credential has expired; to be called more than once a second (contract §6). */
  endExpired(): void;
  close(): void;
}

/** Ends connections as soon as a change of tenant, key, token or user makes them unauthorized. */
export function guardConnections<C extends GuardedConnection>(
  services: Pick<Services, 'actors' | 'clock' | 'apiKeys' | 'log' | 'revocations' | 'users'>,
  connections: () => Iterable<C>,
  end: (connection: C, refusal: Refusal) => void,
): ConnectionGuard {
  const { actors, clock, apiKeys, log, revocations, users } = services;

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

  const unsubscribes = [
    actors.subscribe('tenant.changed', ({ tenantId, suspended: isSuspended }) => {
      if (!isSuspended) return;
      // Platform operators that named the tenant stay connected.
      endWhere((caller, subscription) =>
        subscription.tenantId === null && caller.tenantId === tenantId ? suspendedRefusal() : null,
      );
    }),
    apiKeys.subscribe((prefix) => endWhere(({ principal }) => (principal.key === prefix ? revokedRefusal() : null))),
    revocations.subscribe((id) => endWhere(({ token }) => (token?.id === id ? revokedRefusal() : null))),
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
    },
    close() {
      for (const unsubscribe of unsubscribes) unsubscribe();
    },
  };
}
