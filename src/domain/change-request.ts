import { isPerson } from './policy.ts';
import type { PreviewedDevice } from './twin.ts';
import type { EpochMs, Json, JsonObject, Principal, Uuid } from './values.ts';

// A change that a confirmation is required for, other than a command: a weaker manifest or a new device key, for example.

/** `outdated`: what it changes was changed in the meantime, or it was requested again, so it cannot be applied. */
export const changeStatuses = ['awaiting_confirmation', 'applied', 'refused', 'expired', 'outdated'] as const;
export type ChangeStatus = (typeof changeStatuses)[number];

/**
 * Why a change needs a confirmation. `weaker`: it makes rules weaker, so it is always confirmed, by the
 * requester too if the policy allows that. `critical`: it is confirmed unless the policy lets the requester confirm it.
 */
export type ChangeKind = 'weaker' | 'critical';

/** The operations that a confirmation can be required for, by name. */
export const changeKinds = {
  registerManifest: 'weaker',
  updateManifest: 'weaker',
  updatePolicy: 'weaker',
  rotateSecret: 'critical',
  reinstateDevice: 'critical',
  revokeDevice: 'critical',
  bindCertificate: 'critical',
  updateCa: 'critical',
  releaseFirmware: 'critical',
  setFirmwareSigning: 'critical',
  addFirmwareKey: 'critical',
} as const satisfies Record<string, ChangeKind>;
export type ConfirmedOperation = keyof typeof changeKinds;

/** The kind of a stored change; a build may not know its operation. */
export const changeKindOf = (operation: string): ChangeKind =>
  (changeKinds as Readonly<Record<string, ChangeKind>>)[operation] ?? 'weaker';

/** The effect of a change, as shown to the person who confirms it. */
export interface ChangePreview {
  /** One sentence for each rule that gets weaker, or for each effect of a critical change; at least one. */
  weaker: string[];
  changes: Record<string, { from: Json; to: Json }>;
  /** For a change of a device's keys or certificates, unless an earlier version requested it. */
  device?: PreviewedDevice;
}

/** A change as it was requested. It never changes itself; only its status does. */
export interface ChangeRequest {
  id: Uuid;
  tenantId: Uuid;
  /** Name of the operation that carries it out. */
  operation: string;
  /** The changed thing, as in the audit: `device:<id>`. */
  subject: string;
  /** The validated input of the operation. */
  input: JsonObject;
  /** The state that the preview was made from, such as `manifest:3`. It is applied to no other. */
  base: string;
  preview: ChangePreview;
  /** SHA-256 (hex) of the members above and of the requester, in canonical form. */
  digest: string;
  /** SHA-256 (hex) of the dry-run token. */
  tokenHash: string;
  requestedBy: Principal;
  createdAt: EpochMs;
  expiresAt: EpochMs;
  /** As stored: `expired` follows from `expiresAt`. */
  status: Exclude<ChangeStatus, 'expired'>;
  decidedBy: Principal | null;
  decidedAt: EpochMs | null;
  /** Why it was refused, or what replaced it. */
  reason: string | null;
}

/** How many change requests may wait at once. */
export interface WaitingLimits {
  /** Of one requester: of a user, of one API key, or of all other credentials of a user. */
  own: number;
  /** Of the tenant, for a request of this requester. */
  all: number;
}

const personLimits: WaitingLimits = { own: 100, all: 200 };
/** 50 places of the tenant are left for people, so that programs cannot keep them from requesting a change. */
const programLimits: WaitingLimits = { own: 20, all: 150 };

/** Whether both are the same user in person, the same API key, or other credentials of the same user. */
export const isSameRequester = (a: Principal, b: Principal): boolean =>
  a.id === b.id && (a.key ?? '') === (b.key ?? '') && isPerson(a) === isPerson(b);

/** `ChangeRequest.reason` of a request that was replaced by this one. */
export const replacedByText = ({ id }: Pick<ChangeRequest, 'id'>): string => `Replaced by the change request ${id}.`;

export const waitingLimits = (requester: Principal): WaitingLimits =>
  isPerson(requester) ? personLimits : programLimits;

/** A confirmed change request, for the event that applies it and for the journal. */
export type AppliedChange = Pick<ChangeRequest, 'id' | 'digest' | 'requestedBy'> & Pick<ChangePreview, 'weaker'>;

export const changeStatusOf = ({ status, expiresAt }: ChangeRequest, now: EpochMs): ChangeStatus =>
  status === 'awaiting_confirmation' && now >= expiresAt ? 'expired' : status;
