import { z } from 'zod';
import { NoSuchActor, Quarantined } from '../../actors/contract.ts';
import type { AppliedChange, ChangePreview } from '../../domain/change-request.ts';
import { KEY_GRACE_MS, type SigningAlg, secretBinding } from '../../domain/device-key.ts';
import { signingAlgSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, outdated, refuse } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { type EpochMs, SYSTEM, type Uuid } from '../../domain/values.ts';
import type { CommandEvent } from '../../machines/command-types.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { DeviceKeyRow } from '../../machines/outputs.ts';
import { isPublicKey, newDeviceSecret, publicKeyFromSeed } from '../../protocol/signature.ts';
import type { StoredDeviceKey } from '../../store/contract.ts';
import { applyOrRequest, changeDryRun, confirmationResponse } from '../changes/confirmed-change.ts';
import { withPlacementLock } from '../homes/placement.ts';
import { idOf, isoTime } from '../inputs.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { withinBetaLimit } from './beta-limit.ts';
import { type CommittedDevice, findDevice, isRevoked, nameInPreview, previewedDevice } from './device-view.ts';

/** The public key of a key pair that the device generated. */
export const publicKey = z
  .string()
  .refine(isPublicKey, 'must be an Ed25519 public key: 32 raw bytes in base64url')
  .meta({ description: 'Ed25519, 32 raw bytes, base64url, of a key pair that the device generated' });

/**
 * A new key of the device and, if the service generated it, the secret, which is shown once. HMAC secrets are stored
 * sealed, bound to device and key version; of an Ed25519 key only the public half is stored.
 */
export function generateKey(
  { seal, clock }: Pick<Services, 'seal' | 'clock'>,
  deviceId: Uuid,
  keyVersion: number,
  requested: { alg: SigningAlg; publicKey: string | undefined },
): { key: DeviceKeyRow; secret: string | null } {
  const base = { keyVersion, signingAlg: requested.alg, sealedSecret: null, publicKey: null, createdAt: clock.now() };
  if (requested.publicKey !== undefined) {
    return { key: { ...base, signingAlg: 'ed25519', publicKey: requested.publicKey }, secret: null };
  }
  const secret = newDeviceSecret();
  switch (requested.alg) {
    case 'ed25519':
      return { key: { ...base, publicKey: publicKeyFromSeed(secret) }, secret };
    case 'hmac-sha256':
      return { key: { ...base, sealedSecret: seal(secret, secretBinding(deviceId, keyVersion)) }, secret };
  }
}

const newSecret = z.string().nullable().meta({ description: 'Shown once; null if the device generated its key' });

/** A change of a device's keys; `preview` is null if the change needs no confirmation, because it has no effect. */
interface KeyChange {
  operation: 'rotateSecret' | 'reinstateDevice' | 'revokeDevice';
  preview(device: CommittedDevice): ChangePreview | null;
}

type KeyChangeServices = Pick<Services, 'actors' | 'agentTokens' | 'audit' | 'clock' | 'locks' | 'newId' | 'store'>;

/**
 * Runs a change of the device's keys under its lock, or requests its confirmation. Stored idempotency answers with a
 * secret of the device are dropped first, so none outlives the key that it shows.
 */
async function changeKeys<T>(
  services: KeyChangeServices,
  call: Call<{ id: Uuid }>,
  { operation, preview }: KeyChange,
  apply: (device: CommittedDevice, change: { change?: AppliedChange }) => Promise<Outcome<Answer<T>>>,
): Promise<Outcome<Answer<T | z.infer<typeof changeDryRun>>>> {
  const { caller, input } = call;
  return services.locks.exclusive(`keys:${input.id}`, async () => {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return outdated(found);
    const device = found.value;
    const { keyVersion } = device.snapshot.context.fixed;
    const effect = preview(device);
    const change = {
      ...{ operation, subject: `device:${input.id}` },
      preview: effect && { ...effect, device: previewedDevice(device) },
      base: `key:${keyVersion}:${isRevoked(device) ? 'revoked' : 'active'}`,
    };
    return applyOrRequest(services, call, change, async (applied) => {
      await services.store.idempotency.dropFor(input.id);
      return apply(device, applied === undefined ? {} : { change: applied });
    });
  });
}

/** The part of a preview that shows the next key. */
function newKeyPreview(
  { snapshot }: CommittedDevice,
  { public_key }: { public_key?: string | undefined },
): { sentence: string; changes: ChangePreview['changes'] } {
  const { keyVersion } = snapshot.context.fixed;
  return {
    sentence:
      public_key === undefined
        ? 'Its secret is shown once, to the user who confirms this.'
        : `It is the public key ${public_key} of the request.`,
    changes: { key_version: { from: keyVersion, to: keyVersion + 1 } },
  };
}

interface NewKeyBody {
  device_id: string;
  new_secret: string | null;
  key_version: number;
}

/**
 * Creates the next key and sends the event that `eventOf` builds from it. Without a `public_key` the algorithm is
 * unchanged.
 */
async function rekey<Body extends NewKeyBody>(
  services: Pick<Services, 'actors' | 'clock' | 'seal'>,
  device: CommittedDevice,
  { input, idempotent }: Call<{ id: Uuid; public_key?: string | undefined }>,
  eventOf: (key: DeviceKeyRow) => DeviceEvent,
  bodyOf: (rekeyed: NewKeyBody) => Body,
): Promise<Outcome<Answer<Body>>> {
  const { keyVersion, signingAlg } = device.snapshot.context.fixed;
  const { key, secret } = generateKey(services, input.id, keyVersion + 1, {
    alg: signingAlg,
    publicKey: input.public_key,
  });
  const answer = { body: bodyOf({ device_id: input.id, new_secret: secret, key_version: key.keyVersion }) };
  const reply = await sendToActor(services, device.ref, eventOf(key), () => idempotent?.toRow(answer, input.id));
  return reply.ok ? done(answer) : reply;
}

const rotatedBody = z.object({ device_id: uuid, new_secret: newSecret, key_version: z.int() });

export const rotateSecret = operation({
  name: 'rotateSecret',
  summary: 'Rotate the key of a device; the previous key stays valid for 24 hours',
  input: z.strictObject({ id: idOf('device'), public_key: publicKey.optional() }),
  output: z.union([rotatedBody, changeDryRun]),
  responses: { 200: { when: 'The key is rotated', body: rotatedBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED', 'CONFLICT'],
  // `public_key` is required only from devices that generate their keys.
  example: { input: {} },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'newId', 'seal', 'store'],
  run(services, call) {
    const { principal: by } = call.caller;
    const preview = (device: CommittedDevice): ChangePreview | null => {
      if (isRevoked(device)) return null;
      const { sentence, changes } = newKeyPreview(device, call.input);
      return {
        weaker: [
          `The device ${nameInPreview(device)} gets a new key, and the current one ends after 24 hours. ${sentence}`,
        ],
        changes,
      };
    };
    return changeKeys(services, call, { operation: 'rotateSecret', preview }, (device, change) => {
      const rotate = (key: DeviceKeyRow): DeviceEvent => {
        const at = key.createdAt;
        return { type: 'rotate', at, by, key, graceUntil: at + KEY_GRACE_MS, ...change };
      };
      return rekey(services, device, call, rotate, (body) => body);
    });
  },
});

/**
 * Cancels the open commands of a revoked device; no new ones can be requested during it. After an outage or a crash,
 * the message of the revocation may still be undelivered. It would cancel these commands later, but a reinstated device
 * could receive them first.
 */
async function cancelOpenCommands(
  services: Pick<Services, 'actors' | 'clock' | 'log' | 'store'>,
  deviceId: Uuid,
): Promise<Outcome<null>> {
  const { actors, clock, log, store } = services;
  const event: CommandEvent = { type: 'device.revoked', at: clock.now(), by: SYSTEM, deviceId };
  /** False where the command's actor is quarantined. */
  const cancel = (id: Uuid): Promise<boolean> =>
    actors.send({ kind: 'command', id }, event).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Quarantined) return false;
        if (error instanceof NoSuchActor) return true;
        throw error;
      },
    );
  const open = await store.commands.open(deviceId);
  const cancelled = await Promise.all(open.map(cancel));
  const quarantined = open.filter((_, index) => !cancelled[index]);
  const [first] = quarantined;
  if (first === undefined) return done(null);
  const release = `POST /v1/actors/command/${first}/release`;
  log.warn(
    { device: deviceId, commands: quarantined, release },
    'device not reinstated: open commands are quarantined',
  );
  const others = quarantined.length === 1 ? '' : ` ${quarantined.length - 1} more are quarantined.`;
  return refuse(
    'CONFLICT',
    `Command ${first} of the device is open and quarantined, so it cannot be cancelled.${others} Release it (${release}), then try again.`,
  );
}

const reinstatedBody = z.object({
  device_id: uuid,
  status: z.literal('active'),
  new_secret: newSecret,
  key_version: z.int(),
});

type ReinstatedBody = z.infer<typeof reinstatedBody>;

export const reinstateDevice = operation({
  name: 'reinstateDevice',
  summary: 'Reinstate a revoked device with a new key',
  input: z.strictObject({ id: idOf('device'), reason, public_key: publicKey.optional() }),
  output: z.union([reinstatedBody, changeDryRun]),
  responses: { 200: { when: 'The device is reinstated', body: reinstatedBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION', 'CONFLICT', 'BETA_LIMIT_REACHED'],
  example: { input: { reason: 'Found in storage' } },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'log', 'newId', 'seal', 'settings', 'store'],
  run(services, call) {
    const { reason } = call.input;
    const { principal: by } = call.caller;
    const preview = (device: CommittedDevice): ChangePreview | null => {
      if (!isRevoked(device)) return null;
      const { sentence, changes } = newKeyPreview(device, call.input);
      return {
        weaker: [`The revoked device ${nameInPreview(device)} can connect again, with a new key. ${sentence}`],
        changes: { revoked: { from: true, to: false }, ...changes },
      };
    };
    const apply: Parameters<typeof changeKeys<ReinstatedBody>>[3] = async (device, applied) => {
      const reinstate = (key: DeviceKeyRow): DeviceEvent => ({
        ...{ type: 'reinstate', at: key.createdAt, by, reason, key, ...applied },
      });
      const change = () =>
        rekey(services, device, call, reinstate, (rekeyed) => ({ ...rekeyed, status: 'active' as const }));
      if (!isRevoked(device)) return change();
      const cancelled = await cancelOpenCommands(services, device.ref.id);
      return cancelled.ok ? withinBetaLimit(services, change) : cancelled;
    };
    // Its home, which it keeps, must not be deleted in between as one without active devices.
    return withPlacementLock(services, tenantOf(call.caller), () =>
      changeKeys(services, call, { operation: 'reinstateDevice', preview }, apply),
    );
  },
});

const revokedBody = z.object({ device_id: uuid, status: z.literal('revoked') });

export const revokeDevice = operation({
  name: 'revokeDevice',
  summary: 'Revoke a device: its session ends, its keys become invalid, its open commands are cancelled',
  input: z.strictObject({ id: idOf('device'), reason: reason.optional() }),
  output: z.union([revokedBody, changeDryRun]),
  responses: { 200: { when: 'The device is revoked', body: revokedBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'CONFLICT'],
  example: { input: { reason: 'Lost in transit' } },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'newId', 'store'],
  run(services, call) {
    const { reason } = call.input;
    const { principal: by } = call.caller;
    const answer = { body: { device_id: call.input.id, status: 'revoked' as const } };
    const preview = (device: CommittedDevice): ChangePreview | null => {
      if (isRevoked(device)) return null;
      const ends = 'its connection and its keys end, and its open commands are cancelled';
      return {
        weaker: [`The device ${nameInPreview(device)} is revoked: ${ends}.`],
        changes: { revoked: { from: false, to: true } },
      };
    };
    return changeKeys(services, call, { operation: 'revokeDevice', preview }, async (device, change) => {
      const at = services.clock.now();
      const event: DeviceEvent = { type: 'revoke', at, by, ...(reason && { reason }), ...change };
      const reply = await sendToActor(services, device.ref, event, () => call.idempotent?.toRow(answer), {
        allowNoOp: true,
      });
      if (!reply.ok) return reply;
      // The commands are cancelled before the answer, or else as soon as the messages can be delivered.
      await reply.value.messagesDelivered.catch(() => {});
      return done(answer);
    });
  },
});

const keyEntry = z
  .object({
    key_version: z.int(),
    signing_alg: signingAlgSchema,
    created_at: isoTime,
    grace_until: isoTime.nullable().meta({ description: 'When the grace ends or ended; null without one' }),
    last_used_at: isoTime.nullable(),
    status: z.enum(['active', 'grace', 'retired', 'revoked']),
  })
  .meta({ id: 'DeviceKey' });

export const keyHistory = operation({
  name: 'keyHistory',
  summary: "List a device's keys with their status and times, newest first",
  input: z.strictObject({ id: idOf('device') }),
  output: z.object({ device_id: uuid, keys: z.array(keyEntry) }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'clock', 'sessions', 'store'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    const now = services.clock.now();
    const keys = await services.store.devices.keyHistory(input.id);
    keys.sort((a, b) => b.keyVersion - a.keyVersion);
    const used = services.sessions.keysUsed(input.id);
    const entries = keys.map((key) => entryOf(key, used.get(key.keyVersion) ?? key.lastUsedAt, now));
    return done({ body: { device_id: input.id, keys: entries } });
  },
});

function entryOf(key: StoredDeviceKey, lastUsedAt: EpochMs | null, now: EpochMs): z.infer<typeof keyEntry> {
  const graceEnded = key.status === 'grace' && key.graceUntil !== null && key.graceUntil <= now;
  return {
    key_version: key.keyVersion,
    signing_alg: key.signingAlg,
    created_at: iso(key.createdAt),
    grace_until: key.graceUntil === null ? null : iso(Math.min(key.graceUntil, key.endedAt ?? key.graceUntil)),
    last_used_at: lastUsedAt === null ? null : iso(lastUsedAt),
    status: graceEnded ? 'retired' : key.status,
  };
}
