import { z } from 'zod';
import type { ChangePreview } from '../../domain/change-request.ts';
import {
  type BoundSubject,
  type DeviceCa,
  type DeviceCertificate,
  MAX_DEVICE_SUBJECTS,
  MAX_REVOKED_CERTIFICATES,
} from '../../domain/device-ca.ts';
import { iso } from '../../domain/iso-time.ts';
import { quoted } from '../../domain/quoted.ts';
import { done, outdated, refuse } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { EpochMs } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import { serialNumberOf } from '../../protocol/certificate.ts';
import { applyOrRequest, changeDryRun, confirmationResponse } from '../changes/confirmed-change.ts';
import { type CommittedDevice, findDevice, isRevoked, nameInPreview, previewedDevice } from '../devices/device-view.ts';
import { displayName, idOf, isoTime, notFound } from '../inputs.ts';
import { operation, tenantOf } from '../operation.ts';
import { lastRevocationOf } from './last-revocation.ts';
import { withSessionChecks } from './session-checks.ts';

// The certificates of devices: which common names belong to a device, and which certificates are revoked (decision 56).

const subjectEntry = z
  .object({
    ca_id: uuid,
    common_name: z.string(),
    bound_by: uuid.nullable().meta({ description: 'The user who bound it; null for the registration rule of the CA' }),
    bound_at: isoTime,
  })
  .meta({ id: 'DeviceCertificateSubject' });

const certificateEntry = z
  .object({
    ca_id: uuid,
    serial_number: z.string().meta({ description: 'Hex' }),
    common_name: z.string().nullable(),
    fingerprint: z.string().nullable().meta({ description: 'SHA-256, hex' }),
    not_after: isoTime.nullable(),
    first_used_at: isoTime.nullable(),
    status: z.enum(['valid', 'expired', 'revoked']),
    revoked_at: isoTime.nullable(),
    revoked_by: uuid.nullable(),
    reason: z.string().nullable(),
  })
  .meta({ id: 'DeviceCertificate' });

const subjectOf = ({ caId, commonName, boundBy, boundAt }: BoundSubject): z.infer<typeof subjectEntry> => ({
  ...{ ca_id: caId, common_name: commonName, bound_by: boundBy, bound_at: iso(boundAt) },
});

const isoOrNull = (time: EpochMs | null): string | null => (time === null ? null : iso(time));

function certificateOf(one: DeviceCertificate, now: EpochMs): z.infer<typeof certificateEntry> {
  const isExpired = one.notAfter !== null && one.notAfter < now;
  return {
    ...{ ca_id: one.caId, serial_number: one.serialNumber, common_name: one.commonName, fingerprint: one.fingerprint },
    ...{ not_after: isoOrNull(one.notAfter), first_used_at: isoOrNull(one.firstUsedAt) },
    status: one.revokedAt !== null ? 'revoked' : isExpired ? 'expired' : 'valid',
    ...{ revoked_at: isoOrNull(one.revokedAt), revoked_by: one.revokedBy, reason: one.reason },
  };
}

export const deviceCertificates = operation({
  name: 'deviceCertificates',
  summary: 'List the common names that belong to a device, and the certificates that it has used',
  input: z.strictObject({ id: idOf('device') }),
  output: z.object({ device_id: uuid, subjects: z.array(subjectEntry), certificates: z.array(certificateEntry) }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'clock', 'store'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    const { clock, store } = services;
    const [subjects, certificates] = await Promise.all([
      store.deviceCas.subjectsOf(input.id),
      store.deviceCas.certificatesOf(input.id),
    ]);
    const now = clock.now();
    return done({
      body: {
        device_id: input.id,
        subjects: subjects.map(subjectOf),
        certificates: certificates.map((one) => certificateOf(one, now)),
      },
    });
  },
});

const boundBody = z.object({ status: z.literal('bound'), device_id: uuid, subject: subjectEntry });

/** Of a name that the device does not have: with a certificate it can do what it can with a new key. */
const boundPreview = (device: CommittedDevice, { name, id }: DeviceCa, commonName: string): ChangePreview => ({
  weaker: [
    `Certificates of the CA ${quoted(name)} with the common name ${quoted(commonName)} sign in as the device ${nameInPreview(device)}.`,
  ],
  changes: { certificate: { from: null, to: { ca_id: id, common_name: commonName } } },
  device: previewedDevice(device),
});

export const bindCertificate = operation({
  name: 'bindCertificate',
  summary: 'Bind a common name in certificates of a CA to a device: with such a certificate it signs in as this device',
  input: z.strictObject({ id: idOf('device'), ca_id: idOf('ca'), common_name: displayName }),
  output: z.union([boundBody, changeDryRun]),
  responses: { 201: { when: 'The common name is bound', body: boundBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  auditSubject: ({ input }) => `device:${input.id}`,
  refuses: ['NOT_FOUND', 'DEVICE_REVOKED', 'CONFLICT'],
  example: { input: { ca_id: '00000000-0000-7000-8000-000000000001', common_name: 'lamp-0001' } },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'locks', 'newId', 'store'],
  run(services, call) {
    const { input, caller } = call;
    const { actors, clock, locks, store } = services;
    const { ca_id: caId, common_name: commonName, id: deviceId } = input;
    const tenantId = tenantOf(caller);
    return locks.exclusive(`ca:${caId}`, async () => {
      const found = await findDevice(services, caller, deviceId);
      if (!found.ok) return outdated(found);
      if (isRevoked(found.value))
        return outdated(refuse('DEVICE_REVOKED', 'The device is revoked: reinstate it first.'));
      const ca = await store.deviceCas.find(tenantId, caId);
      if (ca === null) return outdated(notFound('ca'));
      const bound = await store.deviceCas.subject(caId, commonName);
      if (bound !== null && bound.deviceId !== deviceId) {
        const other = await actors.read<DeviceContext>({ kind: 'device', id: bound.deviceId });
        if (other !== null && !isRevoked(other))
          return outdated(
            refuse('CONFLICT', 'The common name belongs to another device. Unbind it, or revoke that device, first.'),
          );
      }
      const own = await store.deviceCas.subjectsOf(deviceId);
      const isNew = bound?.deviceId !== deviceId;
      if (isNew && own.length >= MAX_DEVICE_SUBJECTS)
        return refuse('CONFLICT', `A device has at most ${MAX_DEVICE_SUBJECTS} common names.`);
      const change = {
        ...{ operation: 'bindCertificate' as const, subject: `device:${deviceId}` },
        base: `certificate-subject:${bound?.deviceId ?? 'none'}`,
        preview: isNew ? boundPreview(found.value, ca, commonName) : null,
      };
      return applyOrRequest(services, call, change, async () => {
        const subject: BoundSubject = {
          ...{ caId, commonName, tenantId, deviceId },
          ...{ boundBy: caller.principal.id, boundAt: clock.now() },
        };
        if (isNew && !(await store.deviceCas.bind(subject, bound?.deviceId ?? null)))
          return refuse('CONFLICT', 'Another request has bound the common name. Try again.');
        const answer = isNew || bound === null ? subject : bound;
        return done({ body: { status: 'bound' as const, device_id: deviceId, subject: subjectOf(answer) } });
      });
    });
  },
});

export const unbindCertificate = operation({
  name: 'unbindCertificate',
  summary:
    'Unbind a common name in certificates of a CA from a device: its connection ends, and no rule binds it again',
  input: z.strictObject({
    id: idOf('device'),
    ca_id: idOf('ca').meta({ description: 'The CA whose certificates have the name' }),
    common_name: displayName.meta({ description: 'The name, as it is in the certificates' }),
  }),
  output: z.null(),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  inMaintenance: true,
  auditSubject: ({ input }) => `device:${input.id}`,
  refuses: ['NOT_FOUND'],
  needs: ['actors', 'clock', 'invalidations', 'locks', 'store'],
  run(services, { input, caller }) {
    const { clock, locks, store } = services;
    const { ca_id: caId, common_name: commonName, id: deviceId } = input;
    return locks.exclusive(`ca:${caId}`, async () => {
      const found = await findDevice(services, caller, deviceId);
      if (!found.ok) return found;
      const unbinding = {
        ...{ caId, commonName, tenantId: tenantOf(caller), deviceId },
        ...{ unboundBy: caller.principal.id, unboundAt: clock.now() },
      };
      const since = lastRevocationOf(await store.devices.keyHistory(deviceId));
      const unbind = () => store.deviceCas.unbind(unbinding, since);
      const isUnbound = await withSessionChecks(services, { id: caId, deviceId }, unbind, (isGone) => isGone);
      return isUnbound ? done({ body: null }) : notFound('ca-subject');
    });
  },
});

export const revokeCertificate = operation({
  name: 'revokeCertificate',
  summary: 'Revoke a certificate of a CA by its serial number, also before its first use; its connection ends',
  input: z.strictObject({
    id: idOf('ca'),
    serial_number: z
      .string()
      .max(80)
      .refine((text) => serialNumberOf(text) !== null, 'must be a serial number in hex')
      .meta({ description: 'Hex, as `openssl x509 -serial` prints it' }),
    reason: reason.optional(),
  }),
  output: z.object({ status: z.literal('revoked'), ca_id: uuid, serial_number: z.string() }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  inMaintenance: true,
  auditSubject: ({ input }) => `certificate:${input.id}:${serialNumberOf(input.serial_number)}`,
  refuses: ['NOT_FOUND', 'CONFLICT'],
  example: { input: { serial_number: '4F2A9C', reason: 'Lost in transit' } },
  needs: ['clock', 'invalidations', 'store'],
  async run(services, { input, caller }) {
    const { clock, store } = services;
    const tenantId = tenantOf(caller);
    if ((await store.deviceCas.find(tenantId, input.id)) === null) return notFound('ca');
    const serialNumber = serialNumberOf(input.serial_number) as string;
    const revocation = {
      ...{ tenantId, caId: input.id, serialNumber, revokedAt: clock.now(), revokedBy: caller.principal.id },
      reason: input.reason ?? null,
    };
    // Also if it was revoked before: the request may be repeated because the answer to the first one was lost.
    const revoked = await withSessionChecks(
      services,
      { id: input.id, serialNumber },
      () => store.deviceCas.revoke(revocation, MAX_REVOKED_CERTIFICATES),
      (result) => result !== 'full',
    );
    if (revoked === 'full')
      return refuse('CONFLICT', `${MAX_REVOKED_CERTIFICATES} certificates of the CA are revoked: replace the CA.`);
    return done({ body: { status: 'revoked' as const, ca_id: input.id, serial_number: serialNumber } });
  },
});
