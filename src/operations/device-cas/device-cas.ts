import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { referenceOf } from '../../domain/clock.ts';
import { derivedId } from '../../domain/derived-id.ts';
import {
  CA_VERIFICATION_MS,
  type CaRegistration,
  caStatuses,
  type DeviceCa,
  MAX_CA_VERIFICATIONS,
  MAX_CAS_OF_SUBJECT,
  MAX_TRIED_CAS,
} from '../../domain/device-ca.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { deviceType } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import {
  authorityProblem,
  type Certificate,
  isIssuedBy,
  MAX_CERTIFICATE_TEXT,
  parseCertificate,
} from '../../protocol/certificate.ts';
import { resolvePlacement, withPlacementLock } from '../homes/placement.ts';
import { displayName, idOf, isoTime, notFound } from '../inputs.ts';
import { type Call, operation, type Services, tenantOf } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';
import { EXAMPLE_CA, EXAMPLE_CODE, EXAMPLE_PROOF } from './example-certificates.ts';

// Certificate authorities of a tenant, whose certificates sign in its devices (decision 56).

const pem = z
  .string()
  .max(MAX_CERTIFICATE_TEXT)
  .refine((text) => parseCertificate(text) !== null, 'must be one X.509 certificate in PEM');

const registrationRule = z
  .strictObject({
    home_id: idOf('home'),
    room_id: idOf('room').nullable().default(null),
    device_type: deviceType,
    subject_pattern: displayName
      .nullable()
      .default(null)
      .meta({ description: 'Common names that are registered, with `*` for any text; null for all' }),
    max_devices: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(1_000)
      .meta({ description: 'Most devices that the rule registers' }),
  })
  .meta({ id: 'DeviceCaRegistrationInput' });

const registration = z
  .object({
    home_id: uuid,
    room_id: uuid.nullable(),
    device_type: z.string(),
    subject_pattern: z.string().nullable(),
    max_devices: z.int(),
    set_by: uuid.meta({ description: 'The user who set the rule' }),
  })
  .meta({ id: 'DeviceCaRegistration' });

const ca = z
  .object({
    id: uuid,
    name: z.string(),
    status: z.enum(caStatuses),
    subject: z.string(),
    fingerprint: z.string().meta({ description: 'SHA-256 of the certificate, hex' }),
    not_after: isoTime,
    certificate: z.string().meta({ description: 'PEM' }),
    registration: registration.nullable().meta({
      description:
        'How a device with a certificate of the CA is registered at its first connection; null: it is refused',
    }),
    created_by: uuid,
    created_at: isoTime,
  })
  .meta({ id: 'DeviceCa' });

const caOf = (one: DeviceCa): z.infer<typeof ca> => ({
  ...{ id: one.id, name: one.name, status: one.status, subject: one.subject, fingerprint: one.fingerprint },
  ...{ not_after: iso(one.notAfter), certificate: one.certificate },
  registration: one.registration && {
    ...{ home_id: one.registration.homeId, room_id: one.registration.roomId, device_type: one.registration.deviceType },
    ...{ subject_pattern: one.registration.subjectPattern, max_devices: one.registration.maxDevices },
    set_by: one.registration.setBy,
  },
  ...{ created_by: one.createdBy, created_at: iso(one.createdAt) },
});

export const beginCaRegistration = operation({
  name: 'beginCaRegistration',
  summary: 'Issue the code that the verification certificate of a CA must have as its common name',
  input: z.strictObject({
    valid_for_s: z
      .int()
      .min(60)
      .max(CA_VERIFICATION_MS / 1_000)
      .default(CA_VERIFICATION_MS / 1_000)
      .meta({ description: 'How long the code is valid, in seconds' }),
  }),
  output: z.object({
    verification_code: z.string().meta({
      description: `For one registration. A tenant has at most ${MAX_CA_VERIFICATIONS}; another one replaces the one that ends first`,
    }),
    expires_at: isoTime,
  }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  example: { input: {}, output: { verification_code: EXAMPLE_CODE, expires_at: '2026-03-02T12:00:00.000Z' } },
  needs: ['clock', 'store'],
  async run({ clock, store }, { input, caller }) {
    const tenantId = tenantOf(caller);
    const now = clock.now();
    const code = randomBytes(24).toString('hex');
    const expiresAt = now + input.valid_for_s * 1_000;
    const verification = { tenantId, codeHash: hash('sha256', code), createdBy: caller.principal.id, expiresAt };
    await store.deviceCas.beginVerification(verification, MAX_CA_VERIFICATIONS, now);
    return done({ body: { verification_code: code, expires_at: iso(expiresAt) } });
  },
});

const registerInput = z.strictObject({
  name: displayName,
  certificate: pem.meta({ description: 'The certificate of the CA' }),
  verification_certificate: pem.meta({
    description: 'A certificate that the CA issued for a verification code, which is the common name of its subject',
  }),
  registration: registrationRule.nullable().default(null),
});

export const registerCa = operation({
  name: 'registerCa',
  summary: 'Register a CA whose certificates sign in devices, with proof that its key is yours',
  input: registerInput,
  output: z.object({
    status: z.literal('registered'),
    id: uuid,
    ca,
    username_needed: z.boolean().meta({
      description: `Devices must send the tenant's id as the user name, because ${MAX_TRIED_CAS} or more older CAs have the same subject`,
    }),
  }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  auditSubject: (_, { id }) => `ca:${id}`,
  refuses: ['NOT_FOUND', 'CONFLICT', 'QUOTA_REACHED'],
  example: {
    input: { name: 'Factory', certificate: EXAMPLE_CA, verification_certificate: EXAMPLE_PROOF, registration: null },
  },
  needs: ['actors', 'clock', 'locks', 'settings', 'store'],
  async run(services, call) {
    const { clock, store } = services;
    const { input, caller, idempotent } = call;
    const tenantId = tenantOf(caller);
    const read = readProof(input, referenceOf(clock));
    if (!read.ok) return read;
    const { authority, code } = read.value;
    return withRule(services, call, input.registration, (registration) =>
      withinQuota(
        services,
        tenantId,
        'cas',
        () => store.deviceCas.count(tenantId),
        async () => {
          const one: DeviceCa = {
            ...{ id: caIdOf(tenantId, authority), tenantId, name: input.name, status: 'active' },
            ...{ certificate: authority.x509.toString(), fingerprint: authority.fingerprint },
            ...{
              subjectHash: authority.subjectHash,
              publicKeyHash: authority.publicKeyHash,
              subject: authority.subject,
            },
            ...{ notAfter: authority.notAfter, registration },
            ...{ createdBy: caller.principal.id, createdAt: clock.now() },
          };
          const tried = { tenantId: null, most: MAX_TRIED_CAS };
          const older = await store.deviceCas.bySubject(one.subjectHash, tried);
          const answer = {
            body: {
              ...{ status: 'registered' as const, id: one.id, ca: caOf(one) },
              username_needed: older.length >= MAX_TRIED_CAS,
            },
          };
          const proof = { codeHash: hash('sha256', code), now: clock.now(), mostOfSubject: MAX_CAS_OF_SUBJECT };
          switch (await store.deviceCas.insert(one, proof, idempotent?.toRow(answer))) {
            case 'inserted':
              return done(answer);
            case 'no_code':
              return invalid(
                'verification_certificate',
                'its common name is not an open verification code of this tenant',
              );
            case 'same_subject':
              return refuse(
                'CONFLICT',
                `${MAX_CAS_OF_SUBJECT} CAs of this tenant have this subject. Delete one of them, or issue the CA certificate with another subject.`,
              );
            case 'taken':
              // Also for a CA of another tenant, which is not named.
              return refuse('CONFLICT', 'A CA with this key is registered already.');
          }
        },
      ),
    );
  },
});

/** Deterministic, so that bindings and revocations apply if the CA is registered again. */
const caIdOf = (tenantId: Uuid, { publicKeyHash }: Certificate): Uuid => derivedId(0, 'ca', tenantId, publicKeyHash);

/** The CA's certificate, and the code that its key has signed. */
function readProof(
  input: z.infer<typeof registerInput>,
  now: number,
): Outcome<{ authority: Certificate; code: string }> {
  // The schema has parsed both.
  const authority = parseCertificate(input.certificate) as Certificate;
  const verification = parseCertificate(input.verification_certificate) as Certificate;
  const problem = authorityProblem(authority, now);
  if (problem !== null) return invalid('certificate', problem);
  if (!isIssuedBy(verification, authority)) return invalid('verification_certificate', 'is not issued by the CA');
  if (verification.commonName === null)
    return invalid('verification_certificate', 'its subject must have one common name: the verification code');
  return done({ authority, code: verification.commonName });
}

const invalid = (path: string, message: string) =>
  refuse('VALIDATION_FAILED', 'The request is not valid.', { errors: [{ path, message }] });

/** Runs `work` with the rule as it is stored, while its home and room exist. */
function withRule<T>(
  services: Pick<Services, 'locks' | 'store'>,
  { caller }: Call<unknown>,
  rule: z.infer<typeof registrationRule> | null,
  work: (registration: CaRegistration | null) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  if (rule === null) return work(null);
  const tenantId = tenantOf(caller);
  return withPlacementLock(services, tenantId, async () => {
    const placement = await resolvePlacement(services, tenantId, rule, { homeId: null, roomId: null });
    if (!placement.ok) return placement;
    return work({
      ...{ homeId: rule.home_id, roomId: rule.room_id, deviceType: rule.device_type },
      ...{ subjectPattern: rule.subject_pattern, maxDevices: rule.max_devices, setBy: caller.principal.id },
    });
  });
}

export const listCas = operation({
  name: 'listCas',
  summary: 'List the CAs whose certificates sign in devices',
  input: z.strictObject({}),
  output: z.object({ cas: z.array(ca) }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  needs: ['store'],
  run: async ({ store }, { caller }) => {
    const cas = await store.deviceCas.list(tenantOf(caller));
    return done({ body: { cas: cas.map(caOf) } });
  },
});

export const getCa = operation({
  name: 'getCa',
  summary: 'Show a CA',
  input: z.strictObject({ id: idOf('ca') }),
  output: z.object({ ca }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const one = await store.deviceCas.find(tenantOf(caller), input.id);
    return one === null ? notFound('ca') : done({ body: { ca: caOf(one) } });
  },
});

export const updateCa = operation({
  name: 'updateCa',
  summary: 'Rename, activate or deactivate a CA, or change how it registers devices',
  input: z.strictObject({
    id: idOf('ca'),
    name: displayName.optional(),
    status: z
      .enum(caStatuses)
      .optional()
      .meta({ description: 'The connections of an inactive CA end, and none of its certificates signs in' }),
    registration: registrationRule.nullable().optional(),
  }),
  output: z.object({ ca }),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  inMaintenance: true,
  refuses: ['NOT_FOUND'],
  example: { input: { status: 'inactive' } },
  needs: ['invalidations', 'locks', 'store'],
  run(services, call) {
    const { input, caller } = call;
    const { store, locks, invalidations } = services;
    return locks.exclusive(`ca:${input.id}`, async () => {
      const one = await store.deviceCas.find(tenantOf(caller), input.id);
      if (one === null) return notFound('ca');
      return withRule(services, call, input.registration ?? null, async (registration) => {
        const { name = one.name, status = one.status } = input;
        const rule = input.registration === undefined ? one.registration : registration;
        const changed = { ...one, name, status, registration: rule };
        if (!(await store.deviceCas.update(changed))) return notFound('ca');
        if (status === 'inactive') invalidations.publish({ about: 'ca', id: one.id });
        return done({ body: { ca: caOf(changed) } });
      });
    });
  },
});

export const deleteCa = operation({
  name: 'deleteCa',
  summary: 'Delete a CA: the connections with its certificates end, and none of them signs in any more',
  input: z.strictObject({ id: idOf('ca') }),
  output: z.null(),
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  inMaintenance: true,
  refuses: ['NOT_FOUND'],
  needs: ['invalidations', 'locks', 'store'],
  run({ store, locks, invalidations }, { input, caller }) {
    return locks.exclusive(`ca:${input.id}`, async () => {
      if (!(await store.deviceCas.delete(tenantOf(caller), input.id))) return notFound('ca');
      invalidations.publish({ about: 'ca', id: input.id });
      return done({ body: null });
    });
  },
});
