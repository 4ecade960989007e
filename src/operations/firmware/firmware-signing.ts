import { z } from 'zod';
import type { ChangePreview } from '../../domain/change-request.ts';
import { type FirmwareKey, type FirmwareSigning, MAX_FIRMWARE_KEYS } from '../../domain/firmware-signing.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, outdated, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import { findFirmwareSigner, firmwareKeyId } from '../../protocol/firmware-signature.ts';
import { isPublicKey } from '../../protocol/signature.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import { applyOrRequest, changeDryRun, confirmationResponse } from '../changes/confirmed-change.ts';
import { displayName, isoTime, notFound } from '../inputs.ts';
import { operation, tenantOf } from '../operation.ts';

// Keys that sign a tenant's firmware. The service has the public halves only.

const keyId = z
  .string()
  .regex(/^[A-Za-z0-9_-]{43}$/)
  .meta({ noun: 'firmware-key', description: 'The JWK thumbprint (RFC 7638) of the public key' });

const publicKey = z
  .string()
  .refine(isPublicKey, 'must be an Ed25519 public key: 32 raw bytes in base64url')
  .meta({ description: 'Ed25519, 32 raw bytes, base64url; the member `x` of a JWK' });

const firmwareKey = z
  .object({
    key_id: z.string(),
    name: z.string(),
    public_key: z.string().meta({ description: 'Ed25519, 32 raw bytes, base64url' }),
    added_by: uuid.meta({ description: 'The user that registered the key' }),
    created_at: isoTime,
  })
  .meta({ id: 'FirmwareKey' });

const signatureRequired = z.boolean().meta({
  description:
    'Devices are offered and sent only releases that a registered key has signed, and nothing else is released',
});
const signing = z
  .object({ signature_required: signatureRequired, keys: z.array(firmwareKey) })
  .meta({ id: 'FirmwareSigning' });

const keyOf = ({ keyId, name, publicKey, addedBy, createdAt }: FirmwareKey): z.infer<typeof firmwareKey> => ({
  key_id: keyId,
  name,
  public_key: publicKey,
  added_by: addedBy,
  created_at: iso(createdAt),
});

// For the API reference: the public key of RFC 8032, section 7.1, test 1.
const KEY_EXAMPLE: z.infer<typeof firmwareKey> = {
  key_id: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
  name: 'Release key 2026',
  public_key: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
  added_by: '0195d9a2-7f00-7000-8000-000000000005',
  created_at: '2026-03-01T12:00:00.000Z',
};

export const getFirmwareSigning = operation({
  name: 'getFirmwareSigning',
  summary: 'Show the keys that sign firmware, and whether a signature is required',
  input: z.strictObject({}),
  output: z.object({ signing }),
  role: 'viewer',
  scope: 'read:firmware',
  changes: false,
  example: { output: { signing: { signature_required: true, keys: [KEY_EXAMPLE] } } },
  needs: ['store'],
  async run({ store }, { caller }) {
    const { required, keys } = await store.firmwareSigning.find(tenantOf(caller));
    return done({ body: { signing: { signature_required: required, keys: keys.map(keyOf) } } });
  },
});

/** One change at a time, so that a confirmed one is applied to the state that was previewed. */
const signingLockKey = (tenantId: Uuid): string => `firmware-signing:${tenantId}`;

/** Identifies the keys and the setting that a change was previewed from. */
const signingBase = ({ required, keys }: FirmwareSigning): string =>
  `firmware-signing:${payloadHash({ required, keys: keys.map(({ keyId }) => keyId).sort() })}`;

const addedBody = z.object({ status: z.literal('added'), key_id: z.string(), key: firmwareKey });

export const addFirmwareKey = operation({
  name: 'addFirmwareKey',
  summary: 'Register a key that signs firmware, and require signatures from now on',
  input: z.strictObject({ public_key: publicKey, name: displayName }),
  output: z.union([addedBody, changeDryRun]),
  responses: { 201: { when: 'The key is registered', body: addedBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  personOnly: true,
  auditSubject: ({ input }) => `firmware-key:${firmwareKeyId(input.public_key)}`,
  refuses: ['CONFLICT'],
  example: {
    input: { public_key: KEY_EXAMPLE.public_key, name: KEY_EXAMPLE.name },
    output: { status: 'added', key_id: KEY_EXAMPLE.key_id, key: KEY_EXAMPLE },
  },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'newId', 'store'],
  run(services, call) {
    const { input, caller, idempotent } = call;
    const { store, clock, locks } = services;
    const tenantId = tenantOf(caller);
    const keyId = firmwareKeyId(input.public_key);
    return locks.exclusive(signingLockKey(tenantId), async () => {
      const signing = await store.firmwareSigning.find(tenantId);
      const { keys } = signing;
      if (keys.some((one) => one.keyId === keyId))
        return outdated(refuse('CONFLICT', 'The key is registered already.'));
      if (keys.length >= MAX_FIRMWARE_KEYS) return tooManyKeys();
      const change = {
        ...{ operation: 'addFirmwareKey' as const, subject: `firmware-key:${keyId}`, base: signingBase(signing) },
        preview: addedKeyPreview(signing, keyId, input.name),
      };
      return applyOrRequest(services, call, change, async () => {
        const { public_key, name } = input;
        const at = clock.now();
        const key: FirmwareKey = { keyId, publicKey: public_key, name, addedBy: caller.principal.id, createdAt: at };
        const answer = { body: { status: 'added' as const, key_id: keyId, key: keyOf(key) } };
        const row = idempotent?.toRow(answer);
        return (await store.firmwareSigning.addKey(tenantId, key, MAX_FIRMWARE_KEYS, row))
          ? done(answer)
          : tooManyKeys();
      });
    });
  },
});

const tooManyKeys = () =>
  refuse('CONFLICT', `The tenant has ${MAX_FIRMWARE_KEYS} firmware keys, the maximum: remove one first.`);

/**
 * The effect of one more key; null for the first key where none is required, because then less is offered than before. A
 * further key is trusted like the others as soon as signatures are required again, which the registration itself causes.
 */
const addedKeyPreview = ({ required, keys }: FirmwareSigning, keyId: string, name: string): ChangePreview | null =>
  required || keys.length > 0
    ? {
        weaker: [`Firmware that is signed with the key ${keyId} can be released, offered and sent to devices.`],
        changes: {
          firmware_key: { from: null, to: { key_id: keyId, name } },
          ...(!required && { signature_required: { from: false, to: true } }),
        },
      }
    : null;

export const removeFirmwareKey = operation({
  name: 'removeFirmwareKey',
  summary: 'Remove a key that signs firmware; its signatures count no longer, and a required signature stays required',
  input: z.strictObject({ key_id: keyId }),
  output: z.null(),
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  personOnly: true,
  refuses: ['NOT_FOUND'],
  example: { input: { key_id: KEY_EXAMPLE.key_id } },
  needs: ['locks', 'store'],
  async run({ locks, store }, { input, caller }) {
    const tenantId = tenantOf(caller);
    const remove = () => store.firmwareSigning.removeKey(tenantId, input.key_id);
    const removed = await locks.exclusive(signingLockKey(tenantId), remove);
    return removed ? done({ body: null }) : notFound('firmware-key');
  },
});

const setBody = z.object({ signing });

export const setFirmwareSigning = operation({
  name: 'setFirmwareSigning',
  summary: 'Require signatures of firmware, or require them no longer',
  input: z.strictObject({ signature_required: signatureRequired }),
  output: z.union([setBody, changeDryRun]),
  responses: { 200: { when: 'The setting is in force', body: setBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  personOnly: true,
  auditSubject: ({ input }) => settingSubject(input.signature_required),
  refuses: ['CONFLICT'],
  example: {
    input: { signature_required: true },
    output: { signing: { signature_required: true, keys: [KEY_EXAMPLE] } },
  },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'newId', 'store'],
  run(services, call) {
    const { store, locks } = services;
    const { signature_required } = call.input;
    const tenantId = tenantOf(call.caller);
    return locks.exclusive(signingLockKey(tenantId), async () => {
      const before = await store.firmwareSigning.find(tenantId);
      const change = {
        ...{ operation: 'setFirmwareSigning' as const, subject: settingSubject(signature_required) },
        base: signingBase(before),
        preview: before.required && !signature_required ? unsignedPreview : null,
      };
      return applyOrRequest(services, call, change, async () => {
        await store.firmwareSigning.setRequired(tenantId, signature_required);
        const { required, keys } = await store.firmwareSigning.find(tenantId);
        return done({ body: { signing: { signature_required: required, keys: keys.map(keyOf) } } });
      });
    });
  },
});

const settingSubject = (required: boolean): string => `firmware-signatures:${required ? 'required' : 'not-required'}`;

const unsignedPreview: ChangePreview = {
  weaker: ['Firmware without a signature of a registered key can be released, offered and sent to devices.'],
  changes: { signature_required: { from: true, to: false } },
};

/**
 * The release with the key that verified its signature, if it may be released. `isNew`: the signature was not verified
 * before, so it must be valid even where none is required.
 */
export function verifyRelease(
  { required, keys }: FirmwareSigning,
  release: FirmwareRelease,
  isNew: boolean,
): Outcome<FirmwareRelease> {
  const { signature, checksum, size, deviceType, version } = release;
  if (signature === null) {
    return required
      ? refuse('FIRMWARE_SIGNATURE_REQUIRED', 'This tenant releases signed firmware only: send a signature.')
      : done(release);
  }
  if (checksum === null || size === null) {
    return refuse('FIRMWARE_SIGNATURE_INVALID', 'A signature covers the size of the file: send size as well.');
  }
  const signer = findFirmwareSigner(keys, { deviceType, version, checksum, size }, signature);
  if (signer !== null) return done({ ...release, signatureKeyId: signer.keyId });
  if (!required && !isNew) return done(release);
  return refuse(
    'FIRMWARE_SIGNATURE_INVALID',
    keys.length === 0
      ? 'The signature cannot be verified: no firmware key is registered.'
      : 'No registered firmware key verifies the signature for this device type, version, checksum and size.',
  );
}
