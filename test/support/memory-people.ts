import { atLeast } from '../../src/domain/roles.ts';
import type { EpochMs, Uuid } from '../../src/domain/values.ts';
import {
  type ApiKey,
  type Invitation,
  type KeyStore,
  keySubject,
  type Member,
  type MemberStore,
} from '../../src/store/contract/people.ts';
import type { IdempotencyRow, User } from '../../src/store/contract.ts';
import { pageOf } from './memory-pages.ts';

interface Parts {
  users: Map<Uuid, User>;
  keep(row: IdempotencyRow | null | undefined): void;
  drop(subject: string): void;
  tenantName(id: Uuid): string;
  /** Told of each call. */
  check(): void;
}

const sameEmail = (a: string | null, b: string): boolean => a !== null && folded(a) === folded(b);
const folded = (email: string): string => email.replace(/[A-Z]/g, (letter) => letter.toLowerCase());

/** Keys and members in memory, by the contract. */
export class MemoryPeople {
  readonly apiKeys = new Map<string, ApiKey>();
  readonly invitations = new Map<Uuid, Invitation>();
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  keys: KeyStore = {
    insert: async (key, also) => {
      this.#parts.check();
      this.apiKeys.set(key.prefix, key);
      this.#parts.keep(also);
    },
    find: async (prefix) => {
      this.#parts.check();
      return this.apiKeys.get(prefix) ?? null;
    },
    list: async (tenantId, userId, limit, after) => {
      this.#parts.check();
      const mine = [...this.apiKeys.values()].filter(
        (key) => key.tenantId === tenantId && (userId === null || key.userId === userId),
      );
      return pageOf(mine, ({ createdAt, prefix }) => ({ createdAt, id: prefix }), limit, after);
    },
    live: async (userId, now) =>
      [...this.apiKeys.values()]
        .filter((key) => key.userId === userId && key.revokedAt === null && (key.expiresAt ?? now + 1) > now)
        .map(({ prefix }) => prefix),
    revoke: async (prefix, at, also) => {
      this.#parts.check();
      this.#end(prefix, at);
      this.#parts.keep(also);
    },
    replace: async (prefix, key, also) => {
      this.#parts.check();
      if (this.apiKeys.get(prefix)?.revokedAt !== null) return false;
      this.#end(prefix, key.createdAt);
      this.apiKeys.set(key.prefix, key);
      this.#parts.keep(also);
      return true;
    },
    flushUse: async (uses) => {
      this.#parts.check();
      for (const { prefix, usedAt } of uses) {
        const key = this.apiKeys.get(prefix);
        if (key) this.apiKeys.set(prefix, { ...key, lastUsedAt: Math.max(key.lastUsedAt ?? 0, usedAt) });
      }
    },
  };

  members: MemberStore = {
    list: async (tenantId, now, limit, after) => pageOf(this.#of(tenantId, now), (one) => one, limit, after),
    find: async (tenantId, id, now) => this.#of(tenantId, now).find((one) => one.id === id) ?? null,
    byEmail: async (tenantId, email, now) => this.#of(tenantId, now).find((one) => sameEmail(one.email, email)) ?? null,
    countInvited: async (tenantId, now) => this.#of(tenantId, now).filter(({ status }) => status === 'invited').length,
    countOwners: async (tenantId) =>
      [...this.#parts.users.values()].filter((user) => user.tenantId === tenantId && user.role === 'owner').length,
    invite: async (invitation, also) => {
      this.#parts.check();
      for (const { id, tenantId, email } of this.invitations.values())
        if (tenantId === invitation.tenantId && sameEmail(email, invitation.email)) this.invitations.delete(id);
      this.invitations.set(invitation.id, invitation);
      this.#parts.keep(also);
    },
    offer: async (id, role, invitedBy) => {
      const found = this.invitations.get(id);
      if (found) this.invitations.set(id, { ...found, role, invitedBy });
    },
    uninvite: async (id) => void this.invitations.delete(id),
    invitation: async (id, now) => this.#live(now).find((one) => one.id === id) ?? null,
    invitationsFor: async (email, now, limit) => {
      this.#parts.check();
      const mine = this.#live(now).filter((one) => sameEmail(one.email, email));
      const { items } = pageOf(mine, (one) => one, limit);
      return items.map((one) => ({ ...one, tenantName: this.#parts.tenantName(one.tenantId) }));
    },
    accept: async ({ id }, userId, now, also) => {
      this.#parts.check();
      const found = this.#live(now).find((one) => one.id === id);
      const user = this.#parts.users.get(userId);
      if (!found || user === undefined || user.tenantId !== null) return false;
      this.#parts.users.set(userId, { ...user, tenantId: found.tenantId, role: found.role });
      this.invitations.delete(id);
      this.#parts.keep(also);
      return true;
    },
    setRole: async (tenantId, userId, role) => {
      this.#parts.check();
      const user = this.#parts.users.get(userId);
      if (user?.tenantId === tenantId) this.#parts.users.set(userId, { ...user, role });
    },
    remove: async (tenantId, userId, at) => {
      this.#parts.check();
      const user = this.#parts.users.get(userId);
      if (user?.tenantId !== tenantId) return;
      this.#parts.users.set(userId, { ...user, tenantId: null, role: 'none' });
      const dead = [...this.apiKeys.values()].filter(
        (key) => key.userId === userId && key.tenantId === tenantId && key.revokedAt === null,
      );
      for (const { prefix } of dead) this.#end(prefix, at);
    },
  };

  #end(prefix: string, at: EpochMs): void {
    const key = this.apiKeys.get(prefix);
    if (key) this.apiKeys.set(prefix, { ...key, revokedAt: key.revokedAt ?? at });
    this.#parts.drop(keySubject(prefix));
  }

  #live(now: EpochMs): Invitation[] {
    return [...this.invitations.values()].filter(({ tenantId, invitedBy, role, expiresAt }) => {
      const inviter = this.#parts.users.get(invitedBy);
      if (inviter?.tenantId !== tenantId || expiresAt <= now) return false;
      return atLeast(inviter.role, 'admin') && atLeast(inviter.role, role);
    });
  }

  #of(tenantId: Uuid, now: EpochMs): Member[] {
    this.#parts.check();
    const active = [...this.#parts.users.values()]
      .filter((user) => user.tenantId === tenantId)
      .map(({ id, email, role, createdAt }) => ({ id, email, role, status: 'active' as const, createdAt }));
    const invited = this.#live(now)
      .filter((one) => one.tenantId === tenantId)
      .map(({ id, email, role, createdAt }) => ({ id, email, role, status: 'invited' as const, createdAt }));
    return [...active, ...invited];
  }
}
