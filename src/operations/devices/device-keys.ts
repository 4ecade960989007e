import { z } from 'zod';
import { NoSuchActor, Quarantined } from '../../actors/contract.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import { type EpochMs, SYSTEM, type Uuid } from '../../domain/values.ts';
import type { CommandEvent } from '../../machines/command-types.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { DeviceKeyRow } from '../../machines/outputs.ts';
import {
  isPublicKey,
  newDeviceSecret,
  publicKeyFromSeed,
  type SigningAlg,
  signingAlgs,
} from '../../protocol/signature.ts';
import type { StoredDeviceKey } from '../../store/contract.ts';
import { idOf, iso, isoTime } from '../inputs.ts';
import { type Answer, type Call, operation, type Services } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { withinBetaLimit } from './beta-limit.ts';
import { type CommittedDevice, findDevice, isRevoked } from './device-view.ts';

const GRACE_MS = 24 * 60 * 60 * 1000;

/** A key that a device made itself. */
export const publicKey = z
  .string()
  .refine(isPublicKey, 'must be an Ed25519 public key: 32 raw bytes in base64url')
  .meta({ description: 'Ed25519, 32 raw bytes, base64url: the device made its own key' });

/**
 * A key of the device and, where the service made it, the secret that leaves the service once. HMAC secrets are kept
 * sealed and bound to their place; of an Ed25519 key the service keeps the public half alone.
 */
export function generateKey(
  { seal, clock }: Pick<Services, 'seal' | 'clock'>,
  deviceId: Uuid,
  keyVersion: number,
  asked: { alg: SigningAlg; publicKey: string | undefined },
): { key: DeviceKeyRow; secret: string | null } {
  const made = { keyVersion, signingAlg: asked.alg, sealedSecret: null, publicKey: null, createdAt: clock.now() };
  if (asked.publicKey !== undefined) {
    return { key: { ...made, signingAlg: 'ed25519', publicKey: asked.publicKey }, secret: null };
  }
  const secret = newDeviceSecret();
  const kept =
    asked.alg === 'ed25519'
      ? { publicKey: publicKeyFromSeed(secret) }
      : { sealedSecret: seal(secret, `device:${deviceId}:${keyVersion}`) };
  return { key: { ...made, ...kept }, secret };
}

const newSecret = z.string().nullable().meta({ description: 'Shown once; null where the device made its own key' });

/**
 * Runs a change of the device's keys. Stored answers that hold a secret of it are dropped before, and one change at a
 * time makes its own: none survives that shows a secret of the past.
 */
async function withKeyLock<T>(
  services: Services,
  { caller, input }: Pick<Call<{ id: Uuid }>, 'caller' | 'input'>,
  change: (device: CommittedDevice) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  return services.locks.exclusive(`keys:${input.id}`, async () => {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    await services.store.idempotency.dropFor(input.id);
    return change(found.value);
  });
}

interface NewKeyBody {
  device_id: string;
  new_secret: string | null;
  key_version: number;
}

/** A new key by the event that `eventOf` makes of it. Without a public key of the device's the algorithm stays. */
async function rekey<Body extends NewKeyBody>(
  services: Services,
  device: CommittedDevice,
  { input, idempotent }: Call<{ id: Uuid; public_key?: string | undefined }>,
  eventOf: (key: DeviceKeyRow) => DeviceEvent,
  bodyOf: (rekeyed: NewKeyBody) => Body,
): Promise<Outcome<Answer<Body>>> {
  const { keyVersion, signingAlg } = device.snapshot.context;
  const { key, secret } = generateKey(services, input.id, keyVersion + 1, {
    alg: signingAlg,
    publicKey: input.public_key,
  });
  const answer = { body: bodyOf({ device_id: input.id, new_secret: secret, key_version: key.keyVersion }) };
  const asked = await sendToActor(services, device.ref, eventOf(key), () => idempotent?.toRow(answer, input.id));
  return asked.ok ? done(answer) : asked;
}

export const rotateSecret = operation({
  name: 'rotateSecret',
  summary: 'Give a device a new key; the one before verifies for 24 hours more',
  input: z.strictObject({ id: idOf('device'), public_key: publicKey.optional() }),
  output: z.object({ device_id: z.uuid(), new_secret: newSecret, key_version: z.int() }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED', 'CONFLICT'],
  // A device with a key of its own sends a public key; of the others nothing is asked.
  example: { input: {} },
  run(services, call) {
    const { principal: by } = call.caller;
    const rotate = (key: DeviceKeyRow): DeviceEvent => {
      const at = key.createdAt;
      return { type: 'rotate', at, by, key, graceUntil: at + GRACE_MS };
    };
    return withKeyLock(services, call, (device) => rekey(services, device, call, rotate, (body) => body));
  },
});

/**
 * Cancels the open commands of a revoked device; nothing new can be requested of it meanwhile. After an outage or a crash the
 * message of the revocation can still be undelivered. It would cancel these commands later, but from its reinstatement on the
 * device could receive them first.
 */
async function cancelOpenCommands(services: Services, deviceId: Uuid): Promise<Outcome<null>> {
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
  const taken = await Promise.all(open.map(cancel));
  const quarantined = open.filter((_, at) => !taken[at]);
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

export const reinstateDevice = operation({
  name: 'reinstateDevice',
  summary: 'Take a revoked device back, with a new key',
  input: z.strictObject({ id: idOf('device'), reason, public_key: publicKey.optional() }),
  output: z.object({
    device_id: z.uuid(),
    status: z.literal('active'),
    new_secret: newSecret,
    key_version: z.int(),
  }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION', 'CONFLICT', 'BETA_LIMIT_REACHED'],
  example: { input: { reason: 'Found behind the shelf' } },
  run(services, call) {
    const { reason } = call.input;
    const { principal: by } = call.caller;
    const reinstate = (key: DeviceKeyRow): DeviceEvent => ({ type: 'reinstate', at: key.createdAt, by, reason, key });
    return withKeyLock(services, call, async (device) => {
      const change = () =>
        rekey(services, device, call, reinstate, (rekeyed) => ({ ...rekeyed, status: 'active' as const }));
      if (!isRevoked(device)) return change();
      const cancelled = await cancelOpenCommands(services, device.ref.id);
      return cancelled.ok ? withinBetaLimit(services, change) : cancelled;
    });
  },
});

export const revokeDevice = operation({
  name: 'revokeDevice',
  summary: 'Shut a device out: its session ends, its keys are dead, its commands are closed',
  input: z.strictObject({ id: idOf('device'), reason: reason.optional() }),
  output: z.object({ device_id: z.uuid(), status: z.literal('revoked') }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND'],
  example: { input: { reason: 'Lost on the way' } },
  run(services, call) {
    const { reason } = call.input;
    const { principal: by } = call.caller;
    const answer = { body: { device_id: call.input.id, status: 'revoked' as const } };
    return withKeyLock(services, call, async (device) => {
      const event: DeviceEvent = { type: 'revoke', at: services.clock.now(), by, ...(reason && { reason }) };
      const asked = await sendToActor(services, device.ref, event, () => call.idempotent?.toRow(answer), {
        again: true,
      });
      if (!asked.ok) return asked;
      await asked.value.messagesDelivered.catch(() => {}); // its commands are closed when the caller hears, or as soon as they can be
      return done(answer);
    });
  },
});

const keyEntry = z
  .object({
    key_version: z.int(),
    signing_alg: z.enum(signingAlgs),
    created_at: isoTime,
    grace_until: isoTime.nullable(),
    last_used_at: isoTime.nullable(),
    status: z.enum(['active', 'grace', 'retired', 'revoked']),
  })
  .meta({ id: 'DeviceKey' });

export const keyHistory = operation({
  name: 'keyHistory',
  summary: "List a device's keys with their lives, newest first",
  input: z.strictObject({ id: idOf('device') }),
  output: z.object({ device_id: z.uuid(), keys: z.array(keyEntry) }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  refuses: ['NOT_FOUND'],
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
  const over = key.status === 'grace' && key.graceUntil !== null && key.graceUntil <= now;
  return {
    key_version: key.keyVersion,
    signing_alg: key.signingAlg,
    created_at: iso(key.createdAt),
    grace_until: key.graceUntil === null ? null : iso(key.graceUntil),
    last_used_at: lastUsedAt === null ? null : iso(lastUsedAt),
    status: over ? 'retired' : key.status,
  };
}
