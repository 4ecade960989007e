import type { Role } from '../../domain/roles.ts';
import type { Scope } from '../../domain/scopes.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page, Position } from './page.ts';

// The part of the store's contract that is about a tenant's people and their keys.

/** A key as it is kept: of its text only the prefix and a hash. */
export interface ApiKey {
  /** 8 characters, unique in the whole service. */
  prefix: string;
  tenantId: Uuid;
  /** Whom it acts for. */
  userId: Uuid;
  name: string;
  /** SHA-256 of the whole key, base64url. */
  hash: string;
  /** Empty: all that the role allows. */
  scopes: readonly Scope[];
  /** It acts with its user's role, at most with this one. */
  roleCap: Role;
  createdAt: EpochMs;
  lastUsedAt: EpochMs | null;
  expiresAt: EpochMs | null;
  revokedAt: EpochMs | null;
}

/** The subject of a stored answer that shows a key (`IdempotencyRow.subject`). */
export const keySubject = (prefix: string): string => `key:${prefix}`;

export interface ApiKeyStore {
  insert(key: ApiKey, also?: IdempotencyRow | null): Promise<void>;
  find(prefix: string): Promise<ApiKey | null>;
  /** Dead ones too; `userId` narrows to one person's. */
  list(tenantId: Uuid, userId: Uuid | null, limit: number, after?: Position): Promise<Page<ApiKey>>;
  /** The prefixes of the user's keys that are neither revoked nor expired. */
  live(userId: Uuid, now: EpochMs): Promise<string[]>;
  /** Dead from `at`, unless it was before; stored answers that show it are dropped. */
  revoke(prefix: string, at: EpochMs, also?: IdempotencyRow | null): Promise<void>;
  /** Revokes the one and keeps the other in the same commit; false where the old one is revoked already. */
  replace(prefix: string, key: ApiKey, also?: IdempotencyRow | null): Promise<boolean>;
  flushUse(uses: readonly { prefix: string; usedAt: EpochMs }[]): Promise<void>;
}

/** Somebody of a tenant, or who is asked to become it. */
export interface Member {
  /** The user's id; of an invited one the invitation's. */
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
  /** Must be able to grant the role when it is accepted, too. */
  invitedBy: Uuid;
  createdAt: EpochMs;
  expiresAt: EpochMs;
}

/**
 * Members are users with a tenant; invitations stand beside them. An invitation that expired, or whose inviter could not
 * make it today, is as good as none everywhere here. Emails are compared without regard to the case of ASCII letters.
 */
export interface MemberStore {
  list(tenantId: Uuid, now: EpochMs, limit: number, after?: Position): Promise<Page<Member>>;
  find(tenantId: Uuid, id: Uuid, now: EpochMs): Promise<Member | null>;
  /** The member or the invited one with this address. */
  byEmail(tenantId: Uuid, email: string, now: EpochMs): Promise<Member | null>;
  countInvited(tenantId: Uuid, now: EpochMs): Promise<number>;
  countOwners(tenantId: Uuid): Promise<number>;
  /** Replaces an older invitation of the same address. */
  invite(invitation: Invitation, also?: IdempotencyRow | null): Promise<void>;
  /** The role that is offered from now on, and by whom. */
  updateInvitation(id: Uuid, role: Role, invitedBy: Uuid): Promise<void>;
  deleteInvitation(id: Uuid): Promise<void>;
  invitation(id: Uuid, now: EpochMs): Promise<Invitation | null>;
  /** Newest first. */
  invitationsFor(email: string, now: EpochMs, limit: number): Promise<(Invitation & { tenantName: string })[]>;
  /** The user becomes a member and the invitation is gone; false where either was not to be had. */
  accept(
    invitation: Pick<Invitation, 'id'>,
    userId: Uuid,
    now: EpochMs,
    also?: IdempotencyRow | null,
  ): Promise<boolean>;
  setRole(tenantId: Uuid, userId: Uuid, role: Role): Promise<void>;
  /** The user has no tenant any more, and the user's keys in it are dead. */
  remove(tenantId: Uuid, userId: Uuid, at: EpochMs): Promise<void>;
}
