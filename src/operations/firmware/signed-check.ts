import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { hasKeyEnded, secretBinding } from '../../domain/device-key.ts';
import { errorText, fieldErrors } from '../../domain/field-errors.ts';
import { type Outcome, refuse } from '../../domain/refusals.ts';
import { deviceType } from '../../domain/request-fields.ts';
import { CANONICAL_UUID } from '../../domain/uuid.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { canonicalString, MAX_FIELD_LENGTH, payloadHash } from '../../protocol/canonical.ts';
import { PROTOCOL_VERSION } from '../../protocol/constants.ts';
import { isFreshSession, parseSessionToken, type SessionToken } from '../../protocol/session-token.ts';
import { newDeviceSecret, type VerifyingKey, verifyingKey, verifyText } from '../../protocol/signature.ts';
import { belongsTo, isRevoked } from '../devices/device-view.ts';
import { type Answer, operation, type Services } from '../operation.ts';
import { checkedOutput, currentVersion, offeredUpdate } from './firmware.ts';

/*
 * A device's own check for firmware: the envelope of an MQTT message (contract §4) as the body of a request without another
 * credential. Its `client_id` is the token of a CONNECT, `<device_id>.<timestamp>.<nonce>`, which the store accepts once, for
 * a CONNECT or here; the message type keeps the two signatures apart.
 */

const MESSAGE_TYPE = 'firmware_check';

const field = z
  .string()
  .max(MAX_FIELD_LENGTH)
  .regex(/^[^|]*$/, 'must not contain |');
const id = z.string().regex(new RegExp(`^${CANONICAL_UUID}$`), 'must be a UUID in lower case');
const count = z.int().min(0);

/** The body. Unlike on MQTT, unknown members are refused, as in every request. */
export const signedFirmwareCheck = z
  .strictObject({
    version: z.literal(PROTOCOL_VERSION),
    device_id: id,
    tenant_id: id,
    client_id: field.meta({ description: '`<device_id>.<timestamp>.<nonce>`, as of a CONNECT; valid once' }),
    message_id: field,
    request_id: field,
    sequence_number: count.meta({ description: 'Any number: it is signed, and not compared with those of messages' }),
    timestamp: count.meta({ description: 'Epoch milliseconds, within two minutes of the time of the service' }),
    nonce: field.meta({ description: '12 random bytes in base64url' }),
    message_type: z.literal(MESSAGE_TYPE),
    payload_hash: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits in lower case'),
    payload: z.strictObject({ device_type: deviceType, current_version: currentVersion }),
    key_version: z.int().min(1),
    signature: z.string().max(MAX_FIELD_LENGTH),
  })
  .meta({ id: 'SignedFirmwareCheck' });
type Envelope = z.infer<typeof signedFirmwareCheck>;

/** Verified against for a device without the key, so that response times do not show which devices exist. */
const DUMMY_KEY = verifyingKey('hmac-sha256', newDeviceSecret());

export const checkSignedFirmware = operation({
  name: 'checkSignedFirmware',
  summary: 'Check for newer firmware as a device, signed with its key',
  input: z.looseObject({}),
  output: checkedOutput,
  role: null,
  scope: null,
  changes: false,
  signedByDevice: true,
  refuses: ['UNAUTHENTICATED'],
  needs: ['actors', 'artifacts', 'clock', 'open', 'store'],
  async run(services, { input }): Promise<Outcome<Answer<z.infer<typeof checkedOutput>>>> {
    const parsed = signedFirmwareCheck.safeParse(input, { error: errorText });
    if (!parsed.success) {
      const errors = fieldErrors(parsed.error.issues);
      const detail = errors.map(({ path, message }) => `${path}: ${message}`).join('; ');
      return refuse('VALIDATION_FAILED', detail, { errors });
    }
    const envelope = parsed.data;
    const type = await authenticate(services, envelope);
    if (type === null) {
      return refuse('UNAUTHENTICATED', 'The signature is not valid, or the request is too old or was sent before.');
    }
    const { device_type, current_version } = envelope.payload;
    if (type !== device_type) {
      const message = 'is not the type of this device';
      return refuse('VALIDATION_FAILED', `payload.device_type: ${message}`, {
        errors: [{ path: 'payload.device_type', message }],
      });
    }
    const { tenant_id: tenantId, device_id: deviceId } = envelope;
    return offeredUpdate(services, { tenantId, deviceId, device_type, current_version });
  },
});

/** The type of the device that signed the request; null if none did, it may not, or the request was sent before. */
async function authenticate(
  services: Pick<Services, 'actors' | 'clock' | 'open' | 'store'>,
  envelope: Envelope,
): Promise<string | null> {
  const token = freshToken(services, envelope);
  if (token === null || payloadHash(envelope.payload) !== envelope.payload_hash) return null;
  const [type, key] = await Promise.all([activeType(services, envelope), keyOf(services, envelope)]);
  const isSigned = verifyText(key ?? DUMMY_KEY, canonicalString(envelope), envelope.signature);
  if (key === null || !isSigned || type === null) return null;
  const unused = await services.store.sessionTokens.markUsed([token]);
  // The device may have been revoked, or its key ended, since it was read.
  return unused.has(token.clientId) ? activeType(services, envelope) : null;
}

function freshToken(
  { clock }: Pick<Services, 'clock'>,
  { client_id, device_id, timestamp, nonce }: Envelope,
): SessionToken | null {
  const token = parseSessionToken(client_id);
  if (token === null || token.deviceId !== device_id || token.timestamp !== timestamp || token.nonce !== nonce)
    return null;
  return isFreshSession(token, [clock.now(), referenceOf(clock)]) ? token : null;
}

/** The type of the device if it is active, in an active tenant, and this key version has not ended; otherwise null. */
async function activeType(
  { actors }: Pick<Services, 'actors'>,
  { device_id, tenant_id, key_version }: Envelope,
): Promise<string | null> {
  const [device, tenant] = await Promise.all([
    actors.read<DeviceContext>({ kind: 'device', id: device_id }),
    actors.read<TenantContext>({ kind: 'tenant', id: tenant_id }),
  ]);
  if (device === null || !belongsTo(device, tenant_id) || isRevoked(device)) return null;
  const { fixed } = device.snapshot.context;
  if (tenant?.snapshot.value !== 'active' || hasKeyEnded(fixed, key_version)) return null;
  return fixed.deviceType;
}

async function keyOf(
  { clock, open, store }: Pick<Services, 'clock' | 'open' | 'store'>,
  { device_id, key_version }: Envelope,
): Promise<VerifyingKey | null> {
  const now = clock.now();
  const keys = (await store.devices.validKeys([device_id])).get(device_id) ?? [];
  const found = keys.find(
    ({ keyVersion, graceUntil }) => keyVersion === key_version && (graceUntil === null || graceUntil > now),
  );
  if (found === undefined) return null;
  const { signingAlg, sealedSecret, publicKey } = found;
  const text =
    signingAlg === 'ed25519' ? publicKey : sealedSecret && open(sealedSecret, secretBinding(device_id, key_version));
  return text === null ? null : verifyingKey(signingAlg, text);
}
