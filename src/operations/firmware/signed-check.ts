import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { hasKeyEnded, secretBinding } from '../../domain/device-key.ts';
import { errorText, fieldErrors } from '../../domain/field-errors.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { deviceType } from '../../domain/request-fields.ts';
import { SealBroken } from '../../domain/sealing.ts';
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
    const authenticated = await authenticate(services, envelope);
    if (!authenticated.ok) return authenticated;
    const type = authenticated.value;
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

const forged = () => refuse('UNAUTHENTICATED', 'The signature is not valid.');

/** Only the holder of a key of the device gets the reason. */
const unaccepted = (reason: string) => refuse('UNAUTHENTICATED', reason, { isVerified: true });

/** The type of the device that signed the request, if its key and the request are in force. */
async function authenticate(
  services: Pick<Services, 'actors' | 'clock' | 'open' | 'store'>,
  envelope: Envelope,
): Promise<Outcome<string>> {
  const token = tokenOf(envelope);
  if (token === null || payloadHash(envelope.payload) !== envelope.payload_hash) return forged();
  const [state, key] = await Promise.all([stateOf(services, envelope), keyOf(services, envelope)]);
  const isSigned = verifyText(key?.verifies ?? DUMMY_KEY, canonicalString(envelope), envelope.signature);
  if (key === null || !isSigned || state === null) return forged();
  if (!state.ok) return state;
  if (key.hasEnded) return unaccepted(KEY_ENDED);
  const { clock, store } = services;
  if (!isFreshSession(token, [clock.now(), referenceOf(clock)]))
    return unaccepted(
      'The timestamp is more than two minutes from the time of the service, which the header Date has.',
    );
  const unused = await store.sessionTokens.markUsed([token]);
  if (!unused.has(token.clientId)) return unaccepted('The request was sent before. Sign a new one.');
  // The device may have been revoked, or its key ended, since it was read.
  return (await stateOf(services, envelope)) ?? forged();
}

/** The session token of the envelope; null unless it has the envelope's device, time and nonce. */
function tokenOf({ client_id, device_id, timestamp, nonce }: Envelope): SessionToken | null {
  const token = parseSessionToken(client_id);
  const isOwn = token?.deviceId === device_id && token.timestamp === timestamp && token.nonce === nonce;
  return isOwn ? token : null;
}

const KEY_ENDED = 'The key has ended. Use the current key of the device.';

/** The type of the device, or why it is not accepted, for the holder of its key; null if the tenant has no such device. */
async function stateOf(
  { actors }: Pick<Services, 'actors'>,
  { device_id, tenant_id, key_version }: Envelope,
): Promise<Outcome<string> | null> {
  const [device, tenant] = await Promise.all([
    actors.read<DeviceContext>({ kind: 'device', id: device_id }),
    actors.read<TenantContext>({ kind: 'tenant', id: tenant_id }),
  ]);
  if (device === null || !belongsTo(device, tenant_id)) return null;
  const { fixed } = device.snapshot.context;
  if (tenant?.snapshot.value !== 'active') return unaccepted('The tenant is suspended.');
  if (isRevoked(device)) return unaccepted('The device is revoked.');
  return hasKeyEnded(fixed, key_version) ? unaccepted(KEY_ENDED) : done(fixed.deviceType);
}

interface CheckedKey {
  verifies: VerifyingKey;
  /** Its grace is over, or it was revoked with the device. */
  hasEnded: boolean;
}

/** The key of this version, also one that has ended; null without one that can be opened. */
async function keyOf(
  { clock, open, store }: Pick<Services, 'clock' | 'open' | 'store'>,
  { device_id, key_version }: Envelope,
): Promise<CheckedKey | null> {
  const found = (await store.devices.keyHistory(device_id)).find(({ keyVersion }) => keyVersion === key_version);
  if (found === undefined) return null;
  const { signingAlg, sealedSecret, publicKey, endedAt, graceUntil } = found;
  const hasEnded = endedAt !== null || (graceUntil !== null && graceUntil <= clock.now());
  try {
    const place = secretBinding(device_id, key_version);
    const text = signingAlg === 'ed25519' ? publicKey : sealedSecret && open(sealedSecret, place);
    return text === null ? null : { verifies: verifyingKey(signingAlg, text), hasEnded };
  } catch (error) {
    // The service starts without the master keys of secrets that have ended.
    if (hasEnded && error instanceof SealBroken) return null;
    throw error;
  }
}
