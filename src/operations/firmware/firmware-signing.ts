import { z } from 'zod';
import { type FirmwareKey, type FirmwareSigning, MAX_FIRMWARE_KEYS } from '../../domain/firmware-signing.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { findFirmwareSigner, firmwareKeyId } from '../../protocol/firmware-signature.ts';
import { isPublicKey } from '../../protocol/signature.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
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

export const addFirmwareKey = operation({
  name: 'addFirmwareKey',
  summary: 'Register a key that signs firmware, and require signatures from now on',
  input: z.strictObject({ public_key: publicKey, name: displayName }),
  output: z.object({ status: z.literal('added'), key_id: z.string(), key: firmwareKey }),
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  personOnly: true,
  auditSubject: (_, { key_id }) => `firmware-key:${key_id}`,
  refuses: ['CONFLICT'],
  example: {
    input: { public_key: KEY_EXAMPLE.public_key, name: KEY_EXAMPLE.name },
    output: { status: 'added', key_id: KEY_EXAMPLE.key_id, key: KEY_EXAMPLE },
  },
  needs: ['clock', 'locks', 'store'],
  run({ store, clock, locks }, { input, caller, idempotent }) {
    const tenantId = tenantOf(caller);
    return locks.exclusive(`firmware-signing:${tenantId}`, async () => {
      const key: FirmwareKey = {
        keyId: firmwareKeyId(input.public_key),
        publicKey: input.public_key,
        name: input.name,
        addedBy: caller.principal.id,
        createdAt: clock.now(),
      };
      const answer = { body: { status: 'added' as const, key_id: key.keyId, key: keyOf(key) } };
      const { addKey, find } = store.firmwareSigning;
      if (await addKey(tenantId, key, MAX_FIRMWARE_KEYS, idempotent?.toRow(answer))) return done(answer);
      const { keys } = await find(tenantId);
      return keys.some(({ keyId }) => keyId === key.keyId)
        ? refuse('CONFLICT', 'The key is registered already.')
        : refuse('CONFLICT', `The tenant has ${MAX_FIRMWARE_KEYS} firmware keys, the maximum: remove one first.`);
    });
  },
});

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
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const removed = await store.firmwareSigning.removeKey(tenantOf(caller), input.key_id);
    return removed ? done({ body: null }) : notFound('firmware-key');
  },
});

export const setFirmwareSigning = operation({
  name: 'setFirmwareSigning',
  summary: 'Require signatures of firmware, or require them no longer',
  input: z.strictObject({ signature_required: signatureRequired }),
  output: z.object({ signing }),
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  personOnly: true,
  auditSubject: ({ input }) => `firmware-signatures:${input.signature_required ? 'required' : 'not-required'}`,
  example: {
    input: { signature_required: true },
    output: { signing: { signature_required: true, keys: [KEY_EXAMPLE] } },
  },
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const tenantId = tenantOf(caller);
    await store.firmwareSigning.setRequired(tenantId, input.signature_required);
    const { required, keys } = await store.firmwareSigning.find(tenantId);
    return done({ body: { signing: { signature_required: required, keys: keys.map(keyOf) } } });
  },
});

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
