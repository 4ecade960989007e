import { z } from 'zod';
import { firmwareStatusSchema } from '../../domain/enum-schemas.ts';
import { artifactUrlError, findUpdate, isVersion, meantVersion } from '../../domain/firmware.ts';
import { isSignedAsRequired } from '../../domain/firmware-signing.ts';
import { done, type Outcome, outdated, refuse } from '../../domain/refusals.ts';
import { description, deviceType } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import { ED25519_SIGNATURE } from '../../protocol/signature.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import { applyOrRequest, changeDryRun, confirmationResponse } from '../changes/confirmed-change.ts';
import { findDevice } from '../devices/device-view.ts';
import { cursorAfter, cursorsIn, idOf, listCount, nextCursor, notFound, paging, startOf } from '../inputs.ts';
import { type Answer, type Call, operation, type Services, tenantOf } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';
import { signatureOf } from './firmware-facts.ts';
import { verifyRelease } from './firmware-signing.ts';
import { RELEASE_EXAMPLE, releaseRecord, releaseRecordOf } from './firmware-view.ts';
import { releaseBase, releasePreview } from './release-preview.ts';

// Firmware releases (contract §6). Uploads and downloads are in firmware-artifacts.ts.

const version = z
  .string()
  .refine(isVersion, 'is not a semantic version')
  .meta({ description: 'Semantic version 2.0.0', examples: ['1.5.0'] });

/** As the device reports it. `v1.4` counts as 1.4.0; a text of another form is older than every release. */
export const currentVersion = z
  .string()
  .min(1)
  .max(64)
  .meta({
    description:
      'Version that the device has. A leading v and missing numbers are accepted (v1.4 is 1.4.0); every release is newer than a text of another form',
    examples: ['1.4.2'],
  });

const rollout = z.int().min(0).max(100).meta({
  description: 'Percentage of devices that the release is offered to; chosen deterministically by release and device',
});

const url = z
  .string()
  .superRefine((text, context) => {
    const error = artifactUrlError(text);
    if (error !== null) context.addIssue({ code: 'custom', message: error });
  })
  .meta({ description: 'Where devices download it, http or https; requires a checksum' });

const checksum = z
  .string()
  .regex(/^[0-9a-fA-F]{64}$/, 'is not a SHA-256 in hex')
  .toLowerCase();

const size = z
  .int()
  .min(1)
  .meta({ description: 'Bytes of the file at the URL; required with a signature, and that of the artifact otherwise' });

const signature = z
  .string()
  .regex(ED25519_SIGNATURE, 'is not a signature: 64 bytes in base64url')
  .meta({ description: 'Ed25519 signature of the firmware, as `twinkeep firmware sign` prints it' });

export const createRelease = operation({
  name: 'createRelease',
  summary: 'Create a draft of a firmware release, with a URL or for an artifact to be uploaded',
  input: z
    .strictObject({
      device_type: deviceType,
      version,
      notes: description.optional(),
      url: url.optional(),
      checksum: checksum.optional(),
      size: size.optional(),
      signature: signature.optional(),
      rollout_percent: rollout.default(100),
    })
    .refine((given) => given.url === undefined || given.checksum !== undefined, {
      path: ['checksum'],
      message: 'is required with a url',
    })
    .refine((given) => given.checksum === undefined || given.url !== undefined, {
      path: ['checksum'],
      message: 'is computed from the artifact; send it only with a url',
    })
    .refine((given) => given.size === undefined || given.url !== undefined, {
      path: ['size'],
      message: 'is that of the artifact; send it only with a url',
    }),
  bodyRules: { dependentRequired: { url: ['checksum'], checksum: ['url'], size: ['url'] } },
  output: z.object({ status: z.literal('created'), id: uuid, release: releaseRecord }),
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  auditSubject: (_, { id }) => `firmware:${id}`,
  refuses: ['CONFLICT', 'QUOTA_REACHED'],
  example: {
    input: { device_type: 'smart_light', version: '1.5.0', notes: 'Smoother dimming' },
    output: {
      status: 'created',
      id: RELEASE_EXAMPLE.id,
      release: {
        ...RELEASE_EXAMPLE,
        url: null,
        checksum: null,
        size: null,
        status: 'draft',
        rollout_percent: 100,
        released_at: null,
      },
    },
  },
  needs: ['actors', 'artifacts', 'clock', 'locks', 'newId', 'settings', 'store'],
  async run(services, { input, caller, idempotent }) {
    const release: FirmwareRelease = {
      id: services.newId(),
      tenantId: tenantOf(caller),
      deviceType: input.device_type,
      version: input.version,
      notes: input.notes ?? null,
      status: 'draft',
      rolloutPercent: input.rollout_percent,
      url: input.url ?? null,
      checksum: input.checksum ?? null,
      size: input.size ?? null,
      signature: input.signature ?? null,
      signatureKeyId: null,
      artifact: null,
      createdAt: services.clock.now(),
      releasedAt: null,
      releasedBy: null,
    };
    const answer = {
      body: { status: 'created' as const, id: release.id, release: releaseRecordOf(services, release) },
    };
    const { firmware } = services.store;
    const { tenantId } = release;
    return withinQuota(
      services,
      tenantId,
      'firmware_releases',
      () => firmware.countReleases(tenantId),
      async () =>
        (await firmware.insert(release, idempotent?.toRow(answer)))
          ? done(answer)
          : refuse('CONFLICT', 'This device type already has a release with this version.'),
    );
  },
});

export const listReleases = operation({
  name: 'listReleases',
  summary: "List the tenant's firmware releases, newest first",
  input: z.strictObject({
    device_type: deviceType.optional().meta({ description: 'Only releases for this device type' }),
    status: firmwareStatusSchema.optional().meta({ description: 'Only releases with this status' }),
    ...paging,
  }),
  output: z.object({ releases: z.array(releaseRecord), count: listCount, next_cursor: nextCursor }),
  role: 'viewer',
  scope: 'read:firmware',
  changes: false,
  example: { output: { releases: [RELEASE_EXAMPLE], count: 1, next_cursor: null } },
  needs: ['artifacts', 'store'],
  async run(services, { input: { limit, cursor, ...filters }, caller }) {
    const listing = { route: 'firmware', filters };
    const start = startOf(listing, cursor);
    if (!start.ok) return start;
    const { device_type, status } = filters;
    const filter = {
      ...(device_type !== undefined && { deviceType: device_type }),
      ...(status !== undefined && { status }),
    };
    const page = await services.store.firmware.list(tenantOf(caller), filter, limit, start.value);
    const releases = page.items.map((release) => releaseRecordOf(services, release));
    return done({
      body: { releases, count: await page.count(), next_cursor: cursorAfter(listing, page) },
      cursors: cursorsIn(listing, page),
    });
  },
});

export const getRelease = operation({
  name: 'getRelease',
  summary: 'Show a firmware release',
  input: z.strictObject({ id: idOf('firmware') }),
  output: z.object({ release: releaseRecord }),
  role: 'viewer',
  scope: 'read:firmware',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: { output: { release: RELEASE_EXAMPLE } },
  needs: ['artifacts', 'store'],
  async run(services, { input, caller }) {
    const release = await services.store.firmware.find(tenantOf(caller), input.id);
    return release === null ? notFound('firmware') : done({ body: { release: releaseRecordOf(services, release) } });
  },
});

const releasedBody = z.object({ status: z.literal('released'), id: uuid, release: releaseRecord });

export const releaseFirmware = operation({
  name: 'releaseFirmware',
  summary: 'Release a draft that has a URL or an artifact, or change the rollout of a release',
  input: z.strictObject({
    id: idOf('firmware'),
    rollout_percent: rollout.optional(),
    size: size.optional(),
    signature: signature.optional(),
  }),
  output: z.union([releasedBody, changeDryRun]),
  responses: { 200: { when: 'The version is released', body: releasedBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION', 'CONFLICT', 'FIRMWARE_SIGNATURE_REQUIRED', 'FIRMWARE_SIGNATURE_INVALID'],
  example: {
    input: { rollout_percent: 25 },
    output: { status: 'released', id: RELEASE_EXAMPLE.id, release: RELEASE_EXAMPLE },
  },
  needs: ['actors', 'agentTokens', 'artifacts', 'audit', 'clock', 'locks', 'newId', 'store'],
  async run(services, call) {
    const { input, caller } = call;
    const signing = await services.store.firmwareSigning.find(tenantOf(caller));
    const decide = (release: FirmwareRelease): Outcome<FirmwareRelease> => {
      if (release.status === 'withdrawn') return outdated(illegalTransition('The release was withdrawn.'));
      if (release.checksum === null)
        return illegalTransition('The draft has neither a URL nor an artifact: upload an artifact first.');
      if (input.size !== undefined && release.artifact !== null) return sizeOfArtifact();
      const signed = { ...release, size: input.size ?? release.size, signature: input.signature ?? release.signature };
      const isNew =
        release.status === 'draft' || signed.signature !== release.signature || signed.size !== release.size;
      const verified = verifyRelease(signing, signed, isNew);
      if (!verified.ok) return verified;
      return done({
        ...verified.value,
        status: 'released',
        rolloutPercent: input.rollout_percent ?? release.rolloutPercent,
        releasedAt: release.releasedAt ?? services.clock.now(),
        releasedBy: release.releasedAt === null ? caller.principal.id : release.releasedBy,
      });
    };
    return changeRelease(services, call, 'released', decide, (before, after, apply) => {
      const change = {
        ...{ operation: 'releaseFirmware' as const, subject: `firmware:${before.id}` },
        base: releaseBase(signing, before, after),
        preview: releasePreview(services, signing, before, after),
        // The artifact of a draft can be replaced, also by who confirms the release.
        neverRenewed: true as const,
      };
      return applyOrRequest(services, call, change, apply);
    });
  },
});

export const withdrawFirmware = operation({
  name: 'withdrawFirmware',
  summary: 'Withdraw a release permanently: it is no longer offered or served',
  input: z.strictObject({ id: idOf('firmware') }),
  output: z.object({ status: z.literal('withdrawn'), id: uuid, release: releaseRecord }),
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  refuses: ['NOT_FOUND'],
  example: {
    output: { status: 'withdrawn', id: RELEASE_EXAMPLE.id, release: { ...RELEASE_EXAMPLE, status: 'withdrawn' } },
  },
  needs: ['artifacts', 'locks', 'store'],
  async run(services, call) {
    let artifact: FirmwareRelease['artifact'] = null;
    const changed = await changeRelease(services, call, 'withdrawn', (release) => {
      artifact = release.artifact;
      return done({ ...release, status: 'withdrawn', artifact: null });
    });
    if (changed.ok && artifact !== null) await services.artifacts.discard((artifact as { name: Uuid }).name);
    return changed;
  },
});

const sizeOfArtifact = () => {
  const message = 'is that of the artifact; send it only for a url';
  return refuse('VALIDATION_FAILED', `size: ${message}`, { errors: [{ path: 'size', message }] });
};

const illegalTransition = (detail: string) => refuse('ILLEGAL_TRANSITION', detail);

/**
 * Serializes changes of a release, so that each sees the result of the previous one. `confirm` applies the change, or
 * requests its confirmation.
 */
function changeRelease<Status extends FirmwareRelease['status'], Requested = never>(
  services: Pick<Services, 'artifacts' | 'locks' | 'store'>,
  { input, caller, idempotent }: Call<{ id: Uuid }>,
  status: Status,
  decide: (release: FirmwareRelease) => Outcome<FirmwareRelease>,
  confirm: (
    before: FirmwareRelease,
    after: FirmwareRelease,
    apply: () => Promise<Outcome<Answer<ChangedRelease<Status>>>>,
  ) => Promise<Outcome<Answer<ChangedRelease<Status> | Requested>>> = (_, __, apply) => apply(),
): Promise<Outcome<Answer<ChangedRelease<Status> | Requested>>> {
  return services.locks.exclusive(releaseLockKey(input.id), async () => {
    const release = await services.store.firmware.find(tenantOf(caller), input.id);
    if (release === null) return outdated(notFound('firmware'));
    const decided = decide(release);
    if (!decided.ok) return decided;
    return confirm(release, decided.value, async () => {
      const answer = { body: { status, id: release.id, release: releaseRecordOf(services, decided.value) } };
      await services.store.firmware.update(decided.value, idempotent?.toRow(answer));
      return done(answer);
    });
  });
}

interface ChangedRelease<Status> {
  status: Status;
  id: Uuid;
  release: z.infer<typeof releaseRecord>;
}

export const releaseLockKey = (id: Uuid): string => `firmware:${id}`;

/** The answer to a check for newer firmware. */
export const checkedOutput = z.object({
  update_available: z.boolean(),
  target_version: z.string().nullable(),
  url: z.string().nullable(),
  checksum: z.string().nullable().meta({ description: 'SHA-256, hex' }),
  size: z
    .int()
    .optional()
    .meta({ description: 'Bytes of the file; only of a signed release, like `signature` and `key_id`' }),
  signature: z.string().optional().meta({ description: 'Ed25519 signature of the firmware, base64url' }),
  key_id: z.string().optional().meta({ description: 'The firmware key that verified the signature' }),
});

const checkBase = {
  name: 'checkFirmware',
  output: checkedOutput,
  role: 'user',
  scope: 'read:firmware',
  changes: false,
  refuses: ['NOT_FOUND'],
} as const;

export const checkFirmware = operation({
  ...checkBase,
  summary: 'Check for newer firmware for a device type, or for one device',
  input: z.strictObject({
    device_type: deviceType,
    current_version: currentVersion,
    device_id: idOf('device')
      .optional()
      .meta({ noun: 'device', description: 'Without it, only releases with a full rollout are considered' }),
  }),
  example: {
    input: { device_type: 'smart_light', current_version: '1.4.2' },
    output: {
      update_available: true,
      target_version: '1.5.0',
      url: RELEASE_EXAMPLE.url,
      checksum: RELEASE_EXAMPLE.checksum,
    },
  },
  needs: ['actors', 'artifacts', 'store'],
  async run(services, { input, caller }) {
    const { device_type, current_version, device_id = null } = input;
    if (device_id !== null) {
      const device = await findDevice(services, caller, device_id);
      if (!device.ok) return device;
      if (device.value.snapshot.context.fixed.deviceType !== device_type) {
        const message = 'is not the type of this device';
        return refuse('VALIDATION_FAILED', `device_type: ${message}`, { errors: [{ path: 'device_type', message }] });
      }
    }
    return offeredUpdate(services, { tenantId: tenantOf(caller), deviceId: device_id, device_type, current_version });
  },
});

/** The update that is offered to a device, or without its id the one that is offered to all of its type. */
export async function offeredUpdate(
  { artifacts, store: { firmware, firmwareSigning } }: Pick<Services, 'artifacts' | 'store'>,
  asked: { tenantId: Uuid; deviceId: Uuid | null; device_type: string; current_version: string },
): Promise<Outcome<Answer<z.infer<typeof checkedOutput>>>> {
  const { tenantId, deviceId, device_type, current_version } = asked;
  const signing = await firmwareSigning.find(tenantId);
  const released = await firmware.released(tenantId, device_type);
  const offered = released.filter((release) => isSignedAsRequired(signing, release));
  const update = findUpdate(offered, meantVersion(current_version) ?? UNKNOWN_VERSION, deviceId);
  return done({
    body: {
      update_available: update !== null,
      target_version: update?.version ?? null,
      url: update && artifacts.urlOf(update),
      checksum: update?.checksum ?? null,
      ...(update !== null && signatureOf(update)),
    },
  });
}

/** Used for a device that has reported no version, or none that can be compared: older than every release. */
const UNKNOWN_VERSION = '0.0.0-0';

/** The same for one device, with its type and its last reported version. */
export const checkDeviceFirmware = operation({
  ...checkBase,
  summary: 'Check for newer firmware for a device',
  input: z.strictObject({ device_id: idOf('device') }),
  needs: ['actors', 'artifacts', 'store'],
  async run(services, call) {
    const { device_id } = call.input;
    const device = await findDevice(services, call.caller, device_id);
    if (!device.ok) return device;
    const { deviceType: device_type, firmware } = device.value.snapshot.context.fixed;
    const current_version = firmware ?? UNKNOWN_VERSION;
    return checkFirmware.run(services, { ...call, input: { device_type, current_version, device_id } });
  },
});
