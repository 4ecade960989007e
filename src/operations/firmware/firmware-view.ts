import { z } from 'zod';
import { firmwareStatusSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import { isoTime } from '../inputs.ts';
import type { Services } from '../operation.ts';

// Firmware releases in answers.

export const releaseRecord = z
  .object({
    id: uuid,
    device_type: z.string(),
    version: z.string().meta({ description: 'Semantic version' }),
    url: z
      .string()
      .nullable()
      .meta({ description: 'Download URL; for an uploaded artifact signed now and valid for one hour' }),
    checksum: z.string().nullable().meta({ description: 'SHA-256, hex' }),
    size: z.int().nullable().meta({ description: 'Bytes of the file, if known' }),
    signature: z.string().nullable().meta({ description: 'Ed25519 signature of the firmware, base64url' }),
    key_id: z
      .string()
      .nullable()
      .meta({ description: 'The firmware key that verified the signature when the release was released' }),
    notes: z.string().nullable(),
    status: firmwareStatusSchema,
    rollout_percent: z.int(),
    created_at: isoTime,
    released_at: isoTime.nullable(),
  })
  .meta({ id: 'FirmwareRelease' });

export const releaseRecordOf = (
  { artifacts }: Pick<Services, 'artifacts'>,
  release: FirmwareRelease,
): z.infer<typeof releaseRecord> => ({
  id: release.id,
  device_type: release.deviceType,
  version: release.version,
  url: artifacts.urlOf(release),
  checksum: release.checksum,
  size: release.size,
  signature: release.signature,
  key_id: release.signatureKeyId,
  notes: release.notes,
  status: release.status,
  rollout_percent: release.rolloutPercent,
  created_at: iso(release.createdAt),
  released_at: release.releasedAt === null ? null : iso(release.releasedAt),
});

/** For the API reference. */
export const RELEASE_EXAMPLE: z.infer<typeof releaseRecord> = {
  id: '0195d9a2-7f00-7000-8000-000000000006',
  device_type: 'smart_light',
  version: '1.5.0',
  url: 'https://firmware.example.com/light-1.5.0.bin',
  checksum: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  size: 4,
  signature: null,
  key_id: null,
  notes: 'Smoother dimming',
  status: 'released',
  rollout_percent: 25,
  created_at: '2026-03-01T12:00:00.000Z',
  released_at: '2026-03-02T08:00:00.000Z',
};
