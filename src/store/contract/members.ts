import type { Position } from '../../domain/cursor.ts';
import type { KeyRestriction } from '../../domain/key-restriction.ts';
import type { Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

// Members of a tenant, invitations and API keys.

/** A stored API key: only the prefix and a hash of its text. */
export interface ApiKey {
  /** 8 characters, unique in the whole service. */
  prefix: string;
  tenantId: Uuid;
  /** The user that the key acts for. */
  userId: Uuid;
  name: string;
  /** SHA-256 of the whole key, base64url. */
  hash: string;
  /** Empty: all scopes that the role allows. */
  scopes: readonly Scope[];
  /** The key acts with the role of its user, limited to this one. */
  roleCap: Role;
  /** Null if it is not restricted. */
  restriction: KeyRestriction | null;
  createdAt: EpochMs;
  lastUsedAt: EpochMs | null;
  /** At most `graceUntil`. */
  expiresAt: EpochMs | null;
  revokedAt: EpochMs | null;
  /** End of the grace of a key that was replaced with one; null for every other key. */
  graceUntil: EpochMs | null;
  /** Prefix of the key that replaced it with a grace. */
  replacedBy: string | null;
  /** Prefix of the key that it replaced with a grace. */
  replaces: string | null;
}

/** Subject of a stored response that contains a key (`IdempotencyRow.subject`). */
export const keySubject = (prefix: string): string => `key:${prefix}`;

export interface ApiKeyStore {
  insert(key: ApiKey, idempotency?: IdempotencyRow | null): Promise<void>;
  find(prefix: string): Promise<ApiKey | null>;
  /** Including revoked and expired keys; `userId` narrows to one user. */
  list(tenantId: Uuid, userId: Uuid | null, limit: number, after?: Position): Promise<Page<ApiKey>>;
  /** Prefixes of the user's keys that are neither revoked nor expired. */
  live(userId: Uuid, now: EpochMs): Promise<string[]>;
  /** Revoked at `at`, unless it was revoked before; stored responses that contain the key are removed. */
  revoke(prefix: string, at: EpochMs, idempotency?: IdempotencyRow | null): Promise<void>;
  /**
   * Ends one key and inserts the other in the same commit; false if the old one is revoked or replaced already. The old
   * one is revoked, or with `graceUntil` expires then at the latest. The key that the old one itself replaced with a grace
   * is revoked: `ended` is its prefix.
   */
  replace(
    prefix: string,
    key: ApiKey,
    graceUntil: EpochMs | null,
    idempotency?: IdempotencyRow | null,
  ): Promise<{ ended: string | null } | false>;
  flushUse(uses: readonly { prefix: string; usedAt: EpochMs }[]): Promise<void>;
}

/** A member of a tenant, or the recipient of an invitation. */
export interface Member {
  /** User id; for an invitation, the invitation's id. */
  id: Uuid;
  email: string | null;
  role: Role;
  status: 'active' | 'invited';
  createdAt: EpochMs;
}

export interface Invitation {
  id: Uuid;
  tenantId: Uuid;
  email: string;
  role: Role;
  /** This user must also be able to grant the role at the time of acceptance. */
  invitedBy: Uuid;
  createdAt: EpochMs;
  expiresAt: EpochMs;
}

/**
 * Members are users with a tenant; invitations are separate rows. An invitation that expired, or whose inviter could no
 * longer grant its role, is treated as absent by all methods. Emails are compared ignoring the case of ASCII letters.
 */
export interface MemberStore {
  list(tenantId: Uuid, now: EpochMs, limit: number, after?: Position): Promise<Page<Member>>;
  find(tenantId: Uuid, id: Uuid, now: EpochMs): Promise<Member | null>;
  /** The member or invitation with this address. */
  byEmail(tenantId: Uuid, email: string, now: EpochMs): Promise<Member | null>;
  countInvited(tenantId: Uuid, now: EpochMs): Promise<number>;
  countOwners(tenantId: Uuid): Promise<number>;
  /** Replaces an older invitation of the same address. */
  invite(invitation: Invitation, idempotency?: IdempotencyRow | null): Promise<void>;
  /** Changes the offered role and the inviter. */
  updateInvitation(id: Uuid, role: Role, invitedBy: Uuid): Promise<void>;
  deleteInvitation(id: Uuid): Promise<void>;
  invitation(id: Uuid, now: EpochMs): Promise<Invitation | null>;
  /** Newest first. */
  invitationsFor(email: string, now: EpochMs, limit: number): Promise<(Invitation & { tenantName: string })[]>;
  /**
   * Makes the user a member and deletes the invitation; false if the invitation is not valid or the user has a tenant.
   */
  accept(
    invitation: Pick<Invitation, 'id'>,
    userId: Uuid,
    now: EpochMs,
    idempotency?: IdempotencyRow | null,
  ): Promise<boolean>;
  setRole(tenantId: Uuid, userId: Uuid, role: Role): Promise<void>;
  /** Removes the user from the tenant and revokes the user's API keys in it. */
  remove(tenantId: Uuid, userId: Uuid, at: EpochMs): Promise<void>;
}
