import { z } from 'zod';
import { automaticManifest, categoryOf } from '../../domain/capability-registry.ts';
import { MAX_TAGS, tagList } from '../../domain/device-tags.ts';
import { categorySchema, signingAlgSchema } from '../../domain/enum-schemas.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import { deviceType, metadata } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import { type Placement, resolvePlacement, withPlacementLock } from '../homes/placement.ts';
import { displayName, idOf } from '../inputs.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';
import { withinBetaLimit } from './beta-limit.ts';
import { generateKey, publicKey } from './device-keys.ts';

/** The first sequence number of a device (contract §4). */
const INITIAL_SEQUENCE = 1;

const fields = z
  .strictObject({
    device_type: deviceType,
    home_id: idOf('home'),
    room_id: idOf('room').nullable().optional(),
    name: displayName.optional(),
    category: categorySchema.optional().meta({
      description: 'Which actions it gets from the registry; by default the category that its type names',
    }),
    metadata: metadata.optional(),
    tags: tagList.optional().meta({ description: `Up to ${MAX_TAGS} tags` }),
    signing_alg: signingAlgSchema.default('hmac-sha256'),
    public_key: publicKey.optional(),
  })
  .refine(({ signing_alg, public_key }) => signing_alg === 'ed25519' || public_key === undefined, {
    path: ['public_key'],
    message: 'requires signing_alg ed25519',
  });

const output = z.object({
  status: z.literal('registered'),
  device_id: uuid,
  tenant_id: uuid,
  api_base_url: z.string(),
  device_secret: z
    .string()
    .nullable()
    .meta({ description: '32 bytes, base64url; shown once. Null if the device generated its key' }),
  initial_sequence: z.int(),
  home_id: uuid,
  room_id: uuid.nullable(),
  key_version: z.int(),
  signing_alg: signingAlgSchema,
  category: categorySchema
    .nullable()
    .meta({ description: 'Null if none was given and the type names none: then it accepts no commands' }),
  manifest_version: z
    .int()
    .nullable()
    .meta({ description: 'Null without a category: add a manifest with POST /v1/devices/{deviceId}/manifest' }),
  mqtt_url: z.string(),
  cloud_public_keys: z.array(z.string()).meta({ description: 'Ed25519 keys that sign messages to Ed25519 devices' }),
});

export const registerDevice = operation({
  name: 'registerDevice',
  summary: 'Register a device and issue its key',
  input: fields,
  output,
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  audit: 'journal',
  stoppedBy: 'registration_lock',
  refuses: ['NOT_FOUND', 'QUOTA_REACHED', 'BETA_LIMIT_REACHED'],
  example: {
    input: { device_type: 'smart_light', home_id: '0195d9a2-7f00-7000-8000-000000000001', name: 'Desk lamp' },
  },
  needs: ['actors', 'clock', 'locks', 'manifests', 'newId', 'seal', 'settings', 'store'],
  run(services, call) {
    const tenantId = tenantOf(call.caller);
    return withPlacementLock(services, tenantId, async () => {
      const placement = await resolvePlacement(services, tenantId, call.input, { homeId: null, roomId: null });
      if (!placement.ok) return placement;
      const add = () => register(services, call, { homeId: null, roomId: null, ...placement.value });
      const count = () => services.store.devices.count(tenantId);
      return withinQuota(services, tenantId, 'devices', count, () => withinBetaLimit(services, add));
    });
  },
});

async function register(
  services: Pick<Services, 'actors' | 'clock' | 'manifests' | 'newId' | 'seal' | 'settings'>,
  { input, caller, idempotent }: Call<z.infer<typeof fields>>,
  placement: Placement,
): Promise<Outcome<Answer<z.infer<typeof output>>>> {
  const { actors, manifests, newId, settings } = services;
  const id = newId();
  const tenantId = tenantOf(caller);
  const requestedKey = { alg: input.signing_alg, publicKey: input.public_key };
  const { key, secret } = generateKey(services, id, 1, requestedKey);
  const category = input.category ?? categoryOf(input.device_type);
  const manifest = automaticManifest({
    deviceId: id,
    tenantId,
    deviceType: input.device_type,
    category: input.category,
  });
  const event: DeviceEvent = {
    type: 'register',
    at: key.createdAt,
    by: caller.principal,
    device: {
      id,
      tenantId,
      deviceType: input.device_type,
      category,
      name: input.name ?? null,
      ...placement,
      metadata: input.metadata ?? {},
      signingAlg: key.signingAlg,
      ...(input.tags !== undefined && input.tags.length > 0 && { tags: input.tags }),
    },
    key,
    manifest,
  };
  const answer = {
    body: {
      status: 'registered' as const,
      device_id: id,
      tenant_id: tenantId,
      api_base_url: settings.apiBaseUrl,
      device_secret: secret,
      initial_sequence: INITIAL_SEQUENCE,
      home_id: input.home_id,
      room_id: placement.roomId,
      key_version: key.keyVersion,
      signing_alg: key.signingAlg,
      category,
      manifest_version: manifest?.version ?? null,
      mqtt_url: settings.mqttUrl,
      cloud_public_keys: [...settings.cloudPublicKeys],
    },
  };
  const row = () => idempotent?.toRow(answer, id) ?? null;
  await actors.create({ kind: 'device', id }, event, { idempotency: row });
  if (manifest !== null) manifests.put(manifest);
  return done(answer);
}
