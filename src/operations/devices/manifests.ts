import { z } from 'zod';
import { capabilities, categories } from '../../domain/capability-registry.ts';
import { safetyClassSchema } from '../../domain/enum-schemas.ts';
import type { Capability, Manifest } from '../../domain/manifest.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import { completeManifest, type ManifestBody, manifestBody, manifestUpdateBody } from '../../domain/tenant-manifest.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { DeviceEvent } from '../../machines/device-types.ts';
import type { Output } from '../../machines/outputs.ts';
import { idOf } from '../inputs.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { type CommittedDevice, findDevice } from './device-view.ts';

const capability = z
  .object({
    id: z.int(),
    action: z.string(),
    description: z.string(),
    safetyClass: safetyClassSchema,
    paramSchema: jsonObject,
    supportsDryRun: z.boolean(),
    expectedState: jsonObject.optional(),
    verify_within_s: z.int().optional(),
  })
  .meta({ id: 'Capability' });

export const manifestRecord = z
  .object({
    deviceId: uuid,
    tenantId: uuid,
    category: z.string().nullable(),
    version: z.int(),
    capabilities: z.array(capability),
  })
  .meta({ id: 'Manifest' });
type ManifestRecord = z.infer<typeof manifestRecord>;

export function manifestRecordOf({ own: _, ...record }: Manifest): ManifestRecord {
  return record;
}

export const listCapabilities = operation({
  name: 'listCapabilities',
  summary: 'List the capability registry: every action that the service knows',
  input: z.strictObject({}),
  output: z.object({ capabilities: z.array(capability) }),
  role: 'viewer',
  scope: 'read:manifests',
  changes: false,
  needs: [],
  async run() {
    return done({ body: { capabilities: capabilities() as Capability[] } });
  },
});

export const listCategories = operation({
  name: 'listCategories',
  summary: 'List the device categories with the names of their actions',
  input: z.strictObject({}),
  output: z.object({ categories: z.record(z.string(), z.array(z.string())) }),
  role: 'viewer',
  scope: 'read:manifests',
  changes: false,
  needs: [],
  async run() {
    return done({ body: { categories: categories() } });
  },
});

export const getManifest = operation({
  name: 'getManifest',
  summary: 'Show the capability manifest of a device',
  input: z.strictObject({ deviceId: idOf('device') }),
  output: manifestRecord,
  role: 'viewer',
  scope: 'read:manifests',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'manifests'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.deviceId);
    if (!found.ok) return found;
    const { fixed } = found.value.snapshot.context;
    const manifest = (await services.manifests.load([fixed])).get(fixed.id);
    return manifest ? done({ body: manifestRecordOf(manifest) }) : refuse('NOT_FOUND', 'The device has no manifest.');
  },
});

const singing = { action: 'sing', description: 'Sing a song', expectedState: { singing: true } };

/** Shared by the operations that replace a device's manifest. */
const replacing = {
  output: manifestRecord,
  role: 'admin',
  scope: 'write:manifests',
  personOnly: true,
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED', 'CONFLICT'],
} as const;

export const registerManifest = operation({
  ...replacing,
  needs: ['actors', 'clock', 'manifests'],
  name: 'registerManifest',
  summary: 'Register a manifest for a device, replacing its automatic one',
  input: manifestBody.extend({ deviceId: idOf('device') }),
  example: { input: { capabilities: [singing] } },
  async run(services, call) {
    const found = await findDevice(services, call.caller, call.input.deviceId);
    if (!found.ok) return found;
    return putManifest(services, call, found.value, (base, manifest) => ({
      ...base,
      type: 'manifest.register',
      manifest,
    }));
  },
});

export const updateManifest = operation({
  ...replacing,
  needs: ['actors', 'clock', 'manifests'],
  name: 'updateManifest',
  summary: "Replace a device's own manifest; requires the version that it replaces, in the body or in If-Match",
  input: manifestUpdateBody.extend({ deviceId: idOf('device') }),
  example: { input: { version: 2, capabilities: [singing] } },
  async run(services, call) {
    const { deviceId, version } = call.input;
    const found = await findDevice(services, call.caller, deviceId);
    if (!found.ok) return found;
    if (version === undefined)
      return refuse('CONFLICT', 'version is required: send the version that this manifest replaces.');
    return putManifest(services, call, found.value, (base, manifest) => {
      return { ...base, type: 'manifest.update', manifest, expectedVersion: version };
    });
  },
});

type EventBase = Pick<DeviceEvent, 'at' | 'by'>;

/** The device's actor assigns the version, so the answer is built from the manifest in its outputs. */
async function putManifest(
  services: Pick<Services, 'actors' | 'clock' | 'manifests'>,
  { input, caller, idempotent }: Call<ManifestBody>,
  device: CommittedDevice,
  eventOf: (base: EventBase, manifest: Manifest) => DeviceEvent,
): Promise<Outcome<Answer<ManifestRecord>>> {
  const complete = completeManifest(input);
  if (!complete.ok) return complete;
  const { context } = device.snapshot;
  const event = eventOf(
    { at: services.clock.now(), by: caller.principal },
    {
      deviceId: context.fixed.id,
      tenantId: tenantOf(caller),
      category: input.category ?? context.fixed.category,
      version: context.fixed.manifestVersion + 1,
      own: true,
      capabilities: complete.value,
    },
  );
  const reply = await sendToActor(services, device.ref, event, (outputs) =>
    idempotent?.toRow({ body: manifestRecordOf(manifestIn(outputs)) }),
  );
  if (!reply.ok) return reply;
  return done({ body: manifestRecordOf(services.manifests.put(manifestIn(reply.value.outputs))) });
}

function manifestIn(outputs: readonly Output[]): Manifest {
  for (const output of outputs) if (output.type === 'manifest.put') return output.manifest;
  throw new Error('the device accepted a manifest without a manifest.put output');
}
