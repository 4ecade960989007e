import { z } from 'zod';
import { capabilities, categories } from '../../domain/capability-registry.ts';
import { historyModeSchema, safetyClassSchema } from '../../domain/enum-schemas.ts';
import type { Capability, Manifest } from '../../domain/manifest.ts';
import { compareManifests, MAX_REMOVED } from '../../domain/manifest-comparison.ts';
import { completeProperties } from '../../domain/manifest-properties.ts';
import { done, type Outcome, outdated, type RefusalCode, refuse } from '../../domain/refusals.ts';
import { jsonObject } from '../../domain/request-fields.ts';
import { completeManifest, type ManifestBody, manifestBody, manifestUpdateBody } from '../../domain/tenant-manifest.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import type { DeviceEvent, DeviceFixed } from '../../machines/device-types.ts';
import type { Output } from '../../machines/outputs.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import { applyOrRequest, changeDryRun, confirmationResponse, stillWaits } from '../changes/confirmed-change.ts';
import { idOf } from '../inputs.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { type CommittedDevice, findDevice, isRevoked } from './device-view.ts';

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
    timeout_s: z.int().optional().meta({ description: 'Default `timeout_s` of its commands; 30 without one' }),
    units: z
      .record(z.string(), z.string())
      .optional()
      .meta({ description: 'Units of reported properties, by path (`color.hue`)' }),
  })
  .meta({ id: 'Capability' });

const property = z
  .object({
    label: z.string().optional().meta({ description: 'Its name for people' }),
    unit: z.string().optional(),
    history: historyModeSchema.optional().meta({ description: 'Samples that the history keeps; default `every`' }),
    deadband: z
      .number()
      .optional()
      .meta({ description: 'With `change`: a number is kept that differs from the last one kept by more' }),
  })
  .meta({ id: 'ManifestProperty' });

export const manifestRecord = z
  .object({
    deviceId: uuid,
    tenantId: uuid,
    category: z.string().nullable(),
    version: z.int(),
    capabilities: z.array(capability),
    properties: z
      .record(z.string(), property)
      .optional()
      .meta({ description: 'Reported properties by path, as in the history (`climate.temperature`)' }),
  })
  .meta({ id: 'Manifest' });
type ManifestRecord = z.infer<typeof manifestRecord>;

export function manifestRecordOf({ own: _, removed: __, ...record }: Manifest): ManifestRecord {
  return record;
}

export const listCapabilities = operation({
  name: 'listCapabilities',
  summary: 'List the capability registry: every action that the service knows',
  input: z.strictObject({}),
  output: z.object({ capabilities: z.array(capability) }),
  role: 'viewer',
  scope: 'read:manifests',
  restrictedKeys: 'unaffected',
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
  restrictedKeys: 'unaffected',
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
  tagged: true,
  output: manifestRecord,
  role: 'viewer',
  scope: 'read:manifests',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'manifests'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.deviceId);
    if (!found.ok) return found;
    const { fixed } = found.value.snapshot.context;
    const manifest = (await services.manifests.load([fixed])).get(fixed.id);
    if (manifest === undefined) return refuse('NOT_FOUND', 'The device has no manifest.');
    return done(tagged(manifest));
  },
});

const singing = { action: 'sing', description: 'Sing a song', expectedState: { singing: true } };

/**
 * With an `ETag` that `If-Match` of an update takes, which compares the version. The representation also depends on the build:
 * on its descriptions and the lowest safety classes. So the tag has a digest of it.
 */
function tagged(manifest: Manifest): Answer<ManifestRecord> {
  const body = manifestRecordOf(manifest);
  return { body, etag: `"${manifest.version}-${payloadHash(body as unknown as JsonObject).slice(0, 16)}"` };
}

/** Shared by the operations that replace a device's manifest. */
const replacing = {
  tagged: true,
  output: z.union([manifestRecord, changeDryRun]),
  role: 'admin',
  scope: 'write:manifests',
  personOnly: true,
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED', 'CONFLICT'],
} as const;

export const registerManifest = operation({
  ...replacing,
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'manifests', 'newId', 'store'],
  name: 'registerManifest',
  summary: 'Register a manifest for a device, or give it the one of a category, replacing its automatic one',
  responses: {
    201: { when: 'The manifest is in effect', body: manifestRecord },
    409: confirmationResponse,
  },
  input: manifestBody.extend({ deviceId: idOf('device') }),
  example: { input: { capabilities: [singing] } },
  run(services, call) {
    return replaceManifest(services, call, 'manifest.register');
  },
});

export const updateManifest = operation({
  ...replacing,
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'manifests', 'newId', 'store'],
  name: 'updateManifest',
  summary: "Replace a device's own manifest; requires the version that it replaces, in the body or in If-Match",
  responses: {
    200: { when: 'The manifest is in effect', body: manifestRecord },
    409: confirmationResponse,
  },
  input: manifestUpdateBody.extend({ deviceId: idOf('device') }),
  example: { input: { version: 2, capabilities: [singing] } },
  async run(services, call) {
    if (call.input.version !== undefined) return replaceManifest(services, call, 'manifest.update');
    const found = await findDevice(services, call.caller, call.input.deviceId);
    if (!found.ok) return found;
    return refuse('CONFLICT', 'version is required: send the version that this manifest replaces.');
  },
});

function registerConflict({ manifestOwn }: DeviceFixed) {
  return manifestOwn ? refuse('CONFLICT', 'The device already has a tenant manifest. Update it instead.') : null;
}

function updateConflict({ manifestVersion: current }: DeviceFixed, { version }: { version?: number | undefined }) {
  if (current === 0) return refuse('NOT_FOUND', 'The device has no manifest yet.');
  return version === current ? null : refuse('CONFLICT', `The manifest's current version is ${current}.`);
}

/** Identifies the manifest that a change was previewed from; version 0 without one. */
const manifestBase = (version: number): string => `manifest:${version}`;

/** Names of the operations that send these events. */
const operationNames = { 'manifest.register': 'registerManifest', 'manifest.update': 'updateManifest' } as const;

type PutServices = Pick<
  Services,
  'actors' | 'agentTokens' | 'audit' | 'clock' | 'locks' | 'manifests' | 'newId' | 'store'
>;
type ManifestOutcome = Outcome<Answer<ManifestRecord | z.infer<typeof changeDryRun>>>;
type ManifestCall = Call<ManifestBody & { deviceId: Uuid; version?: number | undefined }>;

/** Codes of refusals because of the version of the manifest. */
const versionRefusals: readonly RefusalCode[] = ['CONFLICT', 'NOT_FOUND'];

/** Finds the device and replaces its manifest. A confirmed change is `outdated` if another manifest is stored. */
async function replaceManifest(
  services: PutServices,
  call: ManifestCall,
  type: keyof typeof operationNames,
): Promise<ManifestOutcome> {
  const found = await findDevice(services, call.caller, call.input.deviceId);
  if (!found.ok) return outdated(found);
  const outcome = await putManifest(services, call, type, found.value);
  const { approval } = call;
  if (outcome.ok || approval === undefined || !versionRefusals.includes(outcome.refusal.code)) return outcome;
  return (await isStored(services, call.input.deviceId, approval.base)) ? stillWaits() : outdated(outcome);
}

/**
 * Whether the manifest is still the one of this `base`, as it is stored: actors and caches may be behind it if another
 * node has become the owner of the tenant.
 */
async function isStored({ store }: Pick<Services, 'store'>, deviceId: Uuid, base: string): Promise<boolean> {
  const [manifest] = await store.devices.manifests([deviceId]);
  return manifestBase(manifest?.version ?? 0) === base;
}

/**
 * Compares the new manifest with the current one, and publishes it or requests its confirmation. The device's actor
 * refuses it if the current version is another one by then.
 */
async function putManifest(
  services: PutServices,
  call: ManifestCall,
  type: keyof typeof operationNames,
  device: CommittedDevice,
): Promise<ManifestOutcome> {
  const { input, caller, idempotent } = call;
  const complete = completeManifest(input);
  if (!complete.ok) return complete;
  if (isRevoked(device)) return refuse('DEVICE_REVOKED', 'The device is revoked.');
  const { fixed } = device.snapshot.context;
  const conflict = type === 'manifest.register' ? registerConflict(fixed) : updateConflict(fixed, input);
  if (conflict !== null) return conflict;
  const before = (await services.manifests.load([fixed])).get(fixed.id) ?? null;
  if ((before?.version ?? 0) !== fixed.manifestVersion)
    return refuse('CONFLICT', `The manifest's current version is ${before?.version ?? 0}.`);
  const { weaker, changes, removed } = compareManifests(before, complete.value);
  if (removed.length > MAX_REMOVED)
    return refuse('CONFLICT', `The manifest would leave out more than ${MAX_REMOVED} actions that were above NORMAL.`);
  const manifest: Manifest = {
    deviceId: fixed.id,
    tenantId: tenantOf(caller),
    category: input.category ?? fixed.category,
    version: fixed.manifestVersion + 1,
    own: input.capabilities !== undefined,
    capabilities: complete.value,
    ...(input.properties !== undefined && { properties: completeProperties(input.properties) }),
    ...(removed.length > 0 && { removed }),
  };
  const change = {
    ...{ operation: operationNames[type], subject: `device:${fixed.id}`, base: manifestBase(fixed.manifestVersion) },
    preview: weaker.length === 0 ? null : { weaker, changes },
    neverRenewed: true as const,
  };
  return applyOrRequest(services, call, change, async (applied) => {
    const event: DeviceEvent = {
      ...{ type, at: services.clock.now(), by: caller.principal, manifest, expectedVersion: fixed.manifestVersion },
      ...(applied && { change: applied }),
    };
    const reply = await sendToActor(services, device.ref, event, (outputs) =>
      idempotent?.toRow({ body: manifestRecordOf(manifestIn(outputs)) }),
    );
    if (!reply.ok) return reply;
    // The device's actor assigns the version.
    const stored = services.manifests.put(manifestIn(reply.value.outputs));
    return done(tagged(stored));
  });
}

function manifestIn(outputs: readonly Output[]): Manifest {
  for (const output of outputs) if (output.type === 'manifest.put') return output.manifest;
  throw new Error('the device accepted a manifest without a manifest.put output');
}
