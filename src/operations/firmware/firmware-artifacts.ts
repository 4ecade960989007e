import { z } from 'zod';
import { MAX_ARTIFACT_BYTES } from '../../domain/firmware.ts';
import { done, refuse } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { isActiveSnapshot } from '../../machines/tenant-record.ts';
import { idOf, notFound } from '../inputs.ts';
import { operation, tenantOf } from '../operation.ts';
import { quotaRefusal } from '../quota-checks.ts';
import { releaseLockKey } from './firmware.ts';
import { RELEASE_EXAMPLE, releaseRecord, releaseRecordOf } from './firmware-view.ts';

// Upload and download of firmware artifacts.

/** Per tenant; withdrawn releases have no artifact. */
const MAX_ARTIFACTS = 100;

const MIB = 1024 * 1024;

const NOT_A_DRAFT = 'Artifacts can be uploaded to drafts only.';

export const putArtifact = operation({
  name: 'putArtifact',
  summary: 'Upload the artifact of a draft; the service computes its checksum and serves it to devices',
  input: z.strictObject({ id: idOf('firmware') }),
  upload: { type: 'application/octet-stream', maxBytes: MAX_ARTIFACT_BYTES },
  output: z.object({ status: z.literal('uploaded'), id: uuid, release: releaseRecord }),
  role: 'admin',
  scope: 'write:firmware',
  changes: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION', 'CONFLICT', 'QUOTA_REACHED'],
  example: {
    output: {
      status: 'uploaded',
      id: RELEASE_EXAMPLE.id,
      release: { ...RELEASE_EXAMPLE, status: 'draft', rollout_percent: 100, released_at: null },
    },
  },
  needs: ['actors', 'artifacts', 'locks', 'settings', 'store'],
  async run(services, { input: { id }, caller, upload = null }) {
    const { store, artifacts, locks } = services;
    const tenantId = tenantOf(caller);
    const draft = await store.firmware.find(tenantId, id);
    if (draft === null) return notFound('firmware');
    if (draft.status !== 'draft') return refuse('ILLEGAL_TRANSITION', NOT_A_DRAFT);
    const { count } = await store.firmware.countArtifacts(tenantId);
    if (draft.artifact === null && count >= MAX_ARTIFACTS) {
      return refuse('CONFLICT', `The tenant has ${MAX_ARTIFACTS} artifacts, the maximum: withdraw old releases first.`);
    }
    if (upload === null) return refuse('VALIDATION_FAILED', 'The artifact is missing.');
    const received = await artifacts.receive(tenantId, upload);
    if (!received.ok) return received;
    const { name, bytes, checksum } = received.value;
    const assign = async () => {
      const release = await store.firmware.find(tenantId, id);
      if (release === null) return notFound('firmware');
      if (release.status !== 'draft') return refuse('ILLEGAL_TRANSITION', NOT_A_DRAFT);
      const tooMany = await quotaRefusal(services, tenantId, 'artifact_mib', async () => {
        const stored = await store.firmware.countArtifacts(tenantId);
        return (stored.bytes - (release.artifact?.bytes ?? 0) + bytes) / MIB;
      });
      if (tooMany !== null) return tooMany;
      const uploaded = { ...release, url: null, checksum, size: bytes, artifact: { name, bytes } };
      // If this fails, the row may or may not refer to the file; the orphan sweep resolves it.
      await store.firmware.update(uploaded);
      if (release.artifact !== null) await artifacts.discard(release.artifact.name);
      return done({ body: { status: 'uploaded' as const, id, release: releaseRecordOf(services, uploaded) } });
    };
    // The second lock is for the sum over all artifacts of the tenant.
    const answer = await locks.exclusive(releaseLockKey(id), () => locks.exclusive(`artifacts:${tenantId}`, assign));
    if (!answer.ok) await artifacts.discard(name);
    return answer;
  },
});

export const getArtifact = operation({
  name: 'getArtifact',
  summary: 'Download an artifact from its signed URL; supports ranges, so a device can resume a download',
  input: z.strictObject({
    id: idOf('firmware'),
    expires: z.int().meta({ description: 'Epoch milliseconds' }),
    signature: z.string().max(64).meta({ description: 'The signature in the URL' }),
  }),
  output: z.null(),
  download: 'application/octet-stream',
  role: null,
  scope: null,
  changes: false,
  refuses: ['NOT_FOUND', 'FORBIDDEN', 'TENANT_SUSPENDED', 'GONE', 'STORE_UNAVAILABLE'],
  needs: ['actors', 'artifacts', 'store'],
  async run({ store, artifacts, actors }, { input: { id, expires, signature } }) {
    if (!artifacts.isUrlValid(id, expires, signature)) {
      return refuse('FORBIDDEN', 'The URL has expired or its signature is invalid.');
    }
    const release = await store.firmware.findInAnyTenant(id);
    if (release === null) return notFound('firmware');
    const tenant = await actors.read({ kind: 'tenant', id: release.tenantId });
    if (tenant === null || !isActiveSnapshot(tenant.snapshot))
      return refuse('TENANT_SUSPENDED', 'The tenant is suspended.');
    if (release.artifact === null) return refuse('GONE', 'The artifact was removed.');
    const name = `${release.deviceType}-${release.version}.bin`.replace(/[^A-Za-z0-9._+-]/g, '_');
    const content = await artifacts.open(release.artifact.name);
    if (content === null) return refuse('GONE', 'The file no longer exists.');
    return done({ body: null, file: { content, name, etag: `"${release.checksum}"` } });
  },
});
