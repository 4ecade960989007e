import { hash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { ChangePreview } from '../../domain/change-request.ts';
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
import { jsonEqual } from '../../domain/json/value.ts';
import { quoted } from '../../domain/quoted.ts';
import { done, type Outcome, outdated, refuse } from '../../domain/refusals.ts';
import { deviceType } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import {
  authorityProblem,
  type Certificate,
  isIssuedBy,
  MAX_CERTIFICATE_TEXT,
  parseCertificate,
} from '../../protocol/certificate.ts';
import { applyOrRequest, changeDryRun, confirmationResponse } from '../changes/confirmed-change.ts';
import { resolvePlacement, withPlacementLock } from '../homes/placement.ts';
import { displayName, idOf, isoTime, notFound } from '../inputs.ts';
import { type Call, operation, type Services, tenantOf } from '../operation.ts';
import { withinQuota } from '../quota-checks.ts';
import { deviceCaView, viewOfCa } from './ca-view.ts';
import { EXAMPLE_CA, EXAMPLE_CODE, EXAMPLE_PROOF } from './example-certificates.ts';
import { withSessionChecks } from './session-checks.ts';

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
  name: displayName.meta({ description: 'Ignored for a renewal, which keeps the name' }),
  certificate: pem.meta({ description: 'The certificate of the CA' }),
  verification_certificate: pem.meta({
    description: 'A certificate that the CA issued for a verification code, which is the common name of its subject',
  }),
  registration: registrationRule
    .nullable()
    .default(null)
    .meta({ description: 'Only for a new CA: a renewal keeps the rule' }),
});

export const registerCa = operation({
  name: 'registerCa',
  summary:
    'Register a CA whose certificates sign in devices, with proof that its key is yours, or renew the certificate of one',
  input: registerInput,
  output: z.object({
    status: z.enum(['registered', 'renewed']).meta({
      description: 'renewed: the tenant has a CA with this key and subject, and its certificate was replaced',
    }),
    id: uuid,
    ca: deviceCaView,
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
    const tenantId = tenantOf(call.caller);
    const proof = readProof(call.input, referenceOf(services.clock));
    if (!proof.ok) return proof;
    const id = caIdOf(tenantId, proof.value.authority);
    // Before the locks of placement and quota, as in all other changes of a CA.
    return services.locks.exclusive(`ca:${id}`, async () => {
      const known = await services.store.deviceCas.find(tenantId, id);
      return known === null
        ? withRule(services, call, call.input.registration, (rule) => addCa(services, call, proof.value, rule))
        : renewCa(services, call, proof.value, known);
    });
  },
});

type RegisterCall = Call<z.infer<typeof registerInput>>;

/** A certificate of a CA, and the code that its key has signed. */
interface CaProof {
  authority: Certificate;
  code: string;
}

function addCa(
  services: Pick<Services, 'actors' | 'clock' | 'locks' | 'settings' | 'store'>,
  { input, caller, idempotent }: RegisterCall,
  { authority, code }: CaProof,
  registration: CaRegistration | null,
) {
  const { clock, store } = services;
  const tenantId = tenantOf(caller);
  const count = () => store.deviceCas.count(tenantId);
  return withinQuota(services, tenantId, 'cas', count, async () => {
    const one: DeviceCa = {
      ...{ id: caIdOf(tenantId, authority), tenantId, name: input.name, status: 'active' },
      ...{ certificate: authority.x509.toString(), fingerprint: authority.fingerprint },
      ...{ subjectHash: authority.subjectHash, publicKeyHash: authority.publicKeyHash, subject: authority.subject },
      ...{ notAfter: authority.notAfter, registration, createdBy: caller.principal.id, createdAt: clock.now() },
    };
    const older = await store.deviceCas.bySubject(one.subjectHash, { tenantId: null, most: MAX_TRIED_CAS });
    const answer = await answerOf(services, 'registered', one, older);
    const proof = { codeHash: hash('sha256', code), now: clock.now(), mostOfSubject: MAX_CAS_OF_SUBJECT };
    switch (await store.deviceCas.insert(one, proof, idempotent?.toRow(answer))) {
      case 'inserted':
        return done(answer);
      case 'no_code':
        return noCode();
      case 'same_subject':
        return refuse(
          'CONFLICT',
          `${MAX_CAS_OF_SUBJECT} CAs of this tenant have this subject. Delete one of them, or issue the CA certificate with another subject.`,
        );
      case 'taken':
        // A CA of another tenant, which is not named.
        return refuse('CONFLICT', 'A CA with this key is registered already.');
    }
  });
}

/** Replaces the certificate of a registered CA: its devices stay connected. */
async function renewCa(
  services: Pick<Services, 'clock' | 'store'>,
  { input, idempotent }: RegisterCall,
  { authority, code }: CaProof,
  known: DeviceCa,
) {
  const { clock, store } = services;
  // Devices' certificates name their issuer by its subject.
  if (authority.subjectHash !== known.subjectHash)
    return refuse('CONFLICT', 'A CA with this key is registered with another subject. A renewal keeps the subject.');
  if (input.registration !== null)
    return invalid('registration', 'the CA is registered: a renewal keeps its rule, which PATCH /cas/{id} changes');
  const renewed: DeviceCa = {
    ...known,
    ...{ certificate: authority.x509.toString(), fingerprint: authority.fingerprint, notAfter: authority.notAfter },
  };
  const tried = await store.deviceCas.bySubject(known.subjectHash, { tenantId: null, most: MAX_TRIED_CAS });
  const others = tried.some(({ id }) => id === known.id) ? [] : tried;
  const answer = await answerOf(services, 'renewed', renewed, others);
  const proof = { codeHash: hash('sha256', code), now: clock.now() };
  switch (await store.deviceCas.renew(renewed, proof, idempotent?.toRow(answer))) {
    case 'renewed':
      return done(answer);
    case 'no_code':
      return noCode();
    case 'unknown':
      return notFound('ca');
  }
}

/** `older` are the CAs that a sign-in without a user name tries before this one. */
const answerOf = async (
  services: Pick<Services, 'store'>,
  status: 'registered' | 'renewed',
  one: DeviceCa,
  older: readonly DeviceCa[],
) => ({
  body: { status, id: one.id, ca: await viewOfCa(services, one), username_needed: older.length >= MAX_TRIED_CAS },
});

const noCode = () =>
  invalid('verification_certificate', 'its common name is not an open verification code of this tenant');

/** Deterministic, so that bindings and revocations apply if the CA is registered again. */
const caIdOf = (tenantId: Uuid, { publicKeyHash }: Certificate): Uuid => derivedId(0, 'ca', tenantId, publicKeyHash);

/** Verifies that the key of the CA has signed the verification certificate. */
function readProof(input: z.infer<typeof registerInput>, now: number): Outcome<CaProof> {
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
  services: Pick<Services, 'clock' | 'locks' | 'store'>,
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
      setAt: services.clock.now(),
    });
  });
}

export const listCas = operation({
  name: 'listCas',
  summary: 'List the CAs whose certificates sign in devices',
  input: z.strictObject({}),
  output: z.object({ cas: z.array(deviceCaView) }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  needs: ['store'],
  run: async ({ store }, { caller }) => {
    const cas = await store.deviceCas.list(tenantOf(caller));
    return done({ body: { cas: await Promise.all(cas.map((one) => viewOfCa({ store }, one))) } });
  },
});

export const getCa = operation({
  name: 'getCa',
  summary: 'Show a CA',
  input: z.strictObject({ id: idOf('ca') }),
  output: z.object({ ca: deviceCaView }),
  role: 'admin',
  scope: 'read:devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  needs: ['store'],
  async run({ store }, { input, caller }) {
    const one = await store.deviceCas.find(tenantOf(caller), input.id);
    return one === null ? notFound('ca') : done({ body: { ca: await viewOfCa({ store }, one) } });
  },
});

const updatedBody = z.object({ ca: deviceCaView });

/** Of an inactive CA that becomes active, with all else that changes; null for every other change. */
function activationPreview(before: DeviceCa, after: DeviceCa): ChangePreview | null {
  if (before.status === 'active' || after.status !== 'active') return null;
  const [from, to] = [previewed(before), previewed(after)];
  const changed = Object.keys(to).filter((member) => !jsonEqual(from[member] ?? null, to[member] ?? null));
  return {
    weaker: [`Devices sign in with the certificates of the CA ${quoted(before.name)} again, except revoked ones.`],
    changes: Object.fromEntries(
      changed.map((member) => [member, { from: from[member] ?? null, to: to[member] ?? null }]),
    ),
  };
}

/** Without who sets the rule and when: that is the confirmer. */
const previewed = ({ name, status, registration: rule }: DeviceCa): JsonObject => ({
  ...{ name, status },
  registration: rule && {
    ...{ home_id: rule.homeId, room_id: rule.roomId, device_type: rule.deviceType },
    ...{ subject_pattern: rule.subjectPattern, max_devices: rule.maxDevices },
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
  output: z.union([updatedBody, changeDryRun]),
  responses: { 200: { when: 'The CA is changed', body: updatedBody }, 409: confirmationResponse },
  role: 'admin',
  scope: 'write:devices',
  changes: true,
  personOnly: true,
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'CONFLICT'],
  example: { input: { status: 'inactive' } },
  needs: ['actors', 'agentTokens', 'audit', 'clock', 'invalidations', 'locks', 'newId', 'store'],
  run(services, call) {
    const { input, caller } = call;
    const { store, locks } = services;
    return locks.exclusive(`ca:${input.id}`, async () => {
      const one = await store.deviceCas.find(tenantOf(caller), input.id);
      if (one === null) return outdated(notFound('ca'));
      return withRule(services, call, input.registration ?? null, (registration) => {
        const { name = one.name, status = one.status } = input;
        const rule = input.registration === undefined ? one.registration : registration;
        const changed = { ...one, name, status, registration: rule };
        const change = {
          ...{ operation: 'updateCa' as const, subject: `ca:${one.id}`, base: `ca:${one.status}` },
          preview: activationPreview(one, changed),
        };
        return applyOrRequest(services, call, change, async () => {
          const update = () => store.deviceCas.update(changed);
          const isUpdated = await (status === 'inactive'
            ? withSessionChecks(services, { id: one.id }, update, (isChanged) => isChanged)
            : update());
          return isUpdated ? done({ body: { ca: await viewOfCa(services, changed) } }) : notFound('ca');
        });
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
  needs: ['clock', 'invalidations', 'locks', 'store'],
  run(services, { input, caller }) {
    const { clock, store, locks } = services;
    return locks.exclusive(`ca:${input.id}`, async () => {
      const remove = () => store.deviceCas.delete(tenantOf(caller), input.id, clock.now());
      const isDeleted = await withSessionChecks(services, { id: input.id }, remove, (isGone) => isGone);
      return isDeleted ? done({ body: null }) : notFound('ca');
    });
  },
});
