import type { ChangeRequest } from '../../../src/domain/change-request.ts';
import type { Dashboard } from '../../../src/domain/dashboard.ts';
import type { DeviceCa } from '../../../src/domain/device-ca.ts';
import type { Proposal } from '../../../src/domain/proposal.ts';
import type { Principal } from '../../../src/domain/values.ts';
import type { AuditRow } from '../../../src/store/contract/audit.ts';
import type { FirmwareRelease } from '../../../src/store/contract/firmware.ts';
import type { ApiKey, Store } from '../../../src/store/contract.ts';
import { fc } from '../properties.ts';
import { answerOf, answers } from './commits.ts';
import { type CallFactory, DAY, moment, type StoreModel, tenant, text, weighted } from './model.ts';

type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never;
const response = fc.option(answers);
const few = fc.nat(3);

/** A call about records, from random numbers, a text, a time and a stored response to commit with it. */
type CallBuilder = (model: StoreModel, inputs: Inputs) => (store: Store) => Promise<unknown>;
const inputs = fc.record({ a: few, b: few, c: few, tenant, text, at: moment, flag: fc.boolean(), response });
type Inputs = typeof inputs extends fc.Arbitrary<infer T> ? T : never;

const responseOf = (model: StoreModel, answer: Answer | null) => (answer === null ? null : answerOf(model, answer));

function proposalOf(model: StoreModel, { a, b, tenant, text, at, flag }: Inputs): Proposal {
  return {
    ...{
      id: model.id('proposal', a),
      tenantId: model.id('tenant', tenant),
      deviceId: model.id('device', b),
      homeId: null,
    },
    ...{
      data: { text },
      note: flag ? text : null,
      askedBy: { kind: 'user', id: model.id('user', 0) },
      status: 'pending',
    },
    ...{
      reason: null,
      steps: [],
      memories: null,
      phase: b === 0 ? 'done' : 'thinking',
      planId: null,
      createdAt: at,
      spokenAt: null,
    },
  };
}

const requesterOf = (model: StoreModel, { b, c, flag }: Inputs): Principal => ({
  ...{ kind: 'user', id: model.id('user', b), person: flag, via: c === 1 ? 'mcp' : 'rest' },
  ...(c === 0 && { key: model.name('key', b) }),
});

const dashboardOf = (
  model: StoreModel,
  { a, b, tenant, text, at }: Pick<Inputs, 'a' | 'b' | 'tenant' | 'text' | 'at'>,
): Dashboard => ({
  ...{ id: model.id('dashboard', a), tenantId: model.id('tenant', tenant), name: text },
  ...{ homeId: b === 0 ? null : model.id('home', b), version: 1 },
  tiles: [{ id: 't', kind: 'text', x: 0, y: b, w: 4, h: 1, text }],
  ...{ createdBy: 'user:u', createdAt: a * DAY, changedBy: `key:${text}`, changedAt: at },
});

const changeOf = (model: StoreModel, one: Inputs): ChangeRequest => {
  const { a, b, tenant, text, at } = one;
  return {
    ...{ id: model.id('change', a), tenantId: model.id('tenant', tenant), operation: text, subject: `device:${b}` },
    ...{ input: { text }, base: `manifest:${b}`, preview: { weaker: [text], changes: { a: { from: b, to: null } } } },
    ...{ digest: 'd', tokenHash: 't', requestedBy: requesterOf(model, one), createdAt: a * DAY },
    ...{ expiresAt: at, status: 'awaiting_confirmation', decidedBy: null, decidedAt: null, reason: null },
  };
};

const keyOf = (model: StoreModel, { a, b, tenant, text, at, flag }: Inputs): ApiKey => ({
  ...{ prefix: model.name('key', a), tenantId: model.id('tenant', tenant), userId: model.id('user', b), name: text },
  ...{ hash: 'h', scopes: [], roleCap: 'admin', createdAt: a * DAY, lastUsedAt: null, revokedAt: null },
  expiresAt: flag ? at : null,
  restriction: b === 1 ? { rooms: [model.id('room', a)], actions: [text] } : null,
  ...{ graceUntil: null, replacedBy: null, replaces: flag && a !== b ? model.name('key', b) : null },
});

const releaseOf = (model: StoreModel, { a, b, c, tenant, text, flag }: Inputs): FirmwareRelease => ({
  ...{ id: model.id('firmware', a), tenantId: model.id('tenant', tenant), deviceType: 'lamp', version: `1.0.${b}` },
  ...{ notes: text, status: flag ? 'released' : 'draft', rolloutPercent: c === 3 ? 101 : c, url: c === 0 ? null : 'u' },
  ...{ checksum: 'c', artifact: b === 2 ? { name: model.id('artifact', c), bytes: 5 } : null },
  ...{ createdAt: a * DAY, releasedAt: null, size: flag ? a : null, signature: flag ? text : null },
  signatureKeyId: flag ? model.name('firmware-key', b) : null,
  releasedBy: flag ? model.id('user', c) : null,
});

const deviceCaOf = (model: StoreModel, { a, b, c, tenant, text, at, flag }: Inputs): DeviceCa => ({
  ...{ id: model.id('ca', a), tenantId: model.id('tenant', tenant), name: text, status: flag ? 'active' : 'inactive' },
  ...{ certificate: 'PEM', fingerprint: text, subjectHash: model.name('ca-subject', b), subject: text },
  ...{ publicKeyHash: model.name('ca-key', c), notAfter: at, createdBy: model.id('user', b), createdAt: a * DAY },
  registration: flag
    ? {
        ...{ homeId: model.id('home', a), roomId: null, deviceType: 'lamp', subjectPattern: b === 0 ? null : 'l*' },
        ...{ maxDevices: c, setBy: model.id('user', c) },
      }
    : null,
});

const auditRow = (model: StoreModel, { a, b, tenant, text, at, flag }: Inputs): AuditRow => ({
  ...{
    id: model.id('audit', a + 4 * b),
    tenantId: flag ? null : model.id('tenant', tenant),
    at,
    by: model.id('user', b),
  },
  ...{ key: null, via: 'rest', action: text, subject: `home:${a}`, outcome: 'done', requestId: model.id('request', a) },
  ...{ address: flag ? null : '192.0.2.1', client: flag ? text : null, count: 1 + b },
});

const homes: Record<string, CallBuilder> = {
  insertHome: (model, { a, tenant, text, flag, response }) => {
    const home = {
      id: model.id('home', a),
      tenantId: model.id('tenant', tenant),
      name: text,
      timezone: flag ? text : null,
    };
    return ({ records }) => records.insertHome({ ...home, createdAt: a * DAY }, responseOf(model, response));
  },
  updateHome: (model, { a, b, tenant, text, flag }) => {
    const changes = { ...(flag && { name: text }), ...(b > 1 && { timezone: b === 2 ? null : text }) };
    return ({ records }) => records.updateHome(model.id('tenant', tenant), model.id('home', a), changes);
  },
  deleteHome:
    (model, { a, tenant }) =>
    ({ records }) =>
      records.deleteHome(model.id('tenant', tenant), model.id('home', a)),
  insertRoom: (model, { a, b, tenant, text, response }) => {
    const room = {
      id: model.id('room', a),
      tenantId: model.id('tenant', tenant),
      homeId: model.id('home', b),
      name: text,
    };
    return ({ records }) => records.insertRoom({ ...room, createdAt: a * DAY }, responseOf(model, response));
  },
  deleteRoom:
    (model, { a, b, tenant }) =>
    ({ records }) =>
      records.deleteRoom(model.id('tenant', tenant), model.id('home', b), model.id('room', a)),
};

const groups: Record<string, CallBuilder> = {
  insertGroup: (model, { a, b, tenant, text, at, response }) => {
    const group = { tenantId: model.id('tenant', tenant), slug: `g${a}`, name: text, description: null, createdAt: at };
    return ({ records }) =>
      records.insertGroup({ ...group, deviceIds: [model.id('device', b)] }, responseOf(model, response));
  },
  joinGroup: (model, { a, b, c, tenant, response }) => {
    const devices = [model.id('device', b), model.id('device', c)];
    return ({ records }) =>
      records.joinGroup(model.id('tenant', tenant), `g${a}`, devices, responseOf(model, response));
  },
  leaveGroup:
    (model, { a, b, tenant }) =>
    ({ records }) =>
      records.leaveGroup(model.id('tenant', tenant), `g${a}`, model.id('device', b)),
  deleteGroup:
    (model, { a, tenant }) =>
    ({ records }) =>
      records.deleteGroup(model.id('tenant', tenant), `g${a}`),
};

const people: Record<string, CallBuilder> = {
  upsertUser: (model, { a, text, at, flag }) => {
    const user = {
      id: model.id('user', a),
      iss: 'urn:test',
      sub: model.name('sub', a),
      email: text,
      emailVerified: flag,
    };
    return ({ identity }) => identity.upsertUser({ ...user, createdAt: at });
  },
  setRole:
    (model, { a, tenant, flag }) =>
    ({ members }) =>
      members.setRole(model.id('tenant', tenant), model.id('user', a), flag ? 'owner' : 'user'),
  remove:
    (model, { a, tenant, at }) =>
    ({ members }) =>
      members.remove(model.id('tenant', tenant), model.id('user', a), at),
  invite: (model, { a, b, c, tenant, at, flag, response }) => {
    const invitation = {
      id: model.id('invitation', a),
      tenantId: model.id('tenant', tenant),
      invitedBy: model.id('user', b),
    };
    const email = flag ? `${c}@EXAMPLE.com` : `${c}@example.com`;
    const more = { email, role: 'user', createdAt: a * DAY, expiresAt: at } as const;
    return ({ members }) => members.invite({ ...invitation, ...more }, responseOf(model, response));
  },
  accept:
    (model, { a, b, at, response }) =>
    ({ members }) =>
      members.accept({ id: model.id('invitation', a) }, model.id('user', b), at, responseOf(model, response)),
  offer:
    (model, { a, b, flag }) =>
    ({ members }) =>
      members.updateInvitation(model.id('invitation', a), flag ? 'admin' : 'viewer', model.id('user', b)),
  uninvite:
    (model, { a }) =>
    ({ members }) =>
      members.deleteInvitation(model.id('invitation', a)),
  insertKey:
    (model, one) =>
    ({ keys }) =>
      keys.insert(keyOf(model, one), responseOf(model, one.response)),
  revokeKey:
    (model, { a, at, response }) =>
    ({ keys }) =>
      keys.revoke(model.name('key', a), at, responseOf(model, response)),
  replaceKey:
    (model, one) =>
    ({ keys }) =>
      keys.replace(
        model.name('key', one.c),
        keyOf(model, one),
        one.flag ? one.at : null,
        responseOf(model, one.response),
      ),
  useKey:
    (model, { a, at }) =>
    ({ keys }) =>
      keys.flushUse([{ prefix: model.name('key', a), usedAt: at }]),
  revokeToken:
    (model, { a, at }) =>
    ({ identity }) =>
      identity.revokeToken(model.name('jti', a), at),
  useTokens:
    (model, { a, b, c, at }) =>
    ({ sessionTokens }) =>
      sessionTokens.markUsed(
        [a, b].map((n) => ({ deviceId: model.id('device', n), timestamp: at, nonce: `nonce${c}` })),
      ),
  markPresented:
    (model, { a, b, at, flag }) =>
    ({ identity }) =>
      identity.markAgentToken({
        ...{ digest: model.name('digest', a), expiresAt: at },
        userId: flag ? model.id('user', b) : null,
      }),
};

const sessions: Record<string, CallBuilder> = {
  recordSession: (model, { a, b, c, text, at, flag }) => {
    const session = {
      ...{ id: model.id('session', a), tokenId: model.name('jti', a), userId: model.id('user', b), client: text },
      ...{ kind: 'token' as const, address: flag ? text : null, ancestors: c === 0 ? [] : [model.name('jti', c)] },
      ...{ signedInAt: flag ? at : null, createdAt: a * DAY, lastUsedAt: at, expiresAt: 3 * DAY },
    };
    return ({ userSessions }) => userSessions.record([session]);
  },
  forgetSession:
    (model, { a }) =>
    ({ userSessions }) =>
      userSessions.forget([model.name('jti', a)]),
  signOut:
    (model, { b, at }) =>
    async ({ userSessions }) =>
      (await userSessions.signOut(model.id('user', b), at, at - DAY)).map(({ tokenId }) => tokenId).sort(),
};

const others: Record<string, CallBuilder> = {
  put:
    (model, { response }) =>
    ({ idempotency }) =>
      response === null ? Promise.resolve() : idempotency.put(answerOf(model, response)),
  dropFor:
    (model, { a }) =>
    ({ idempotency }) =>
      idempotency.dropFor(model.id('device', a)),
  setFlag:
    (model, { a, flag, response }) =>
    ({ administration }) =>
      administration.setFlag(model.name('flag', a), flag, responseOf(model, response)),
  insertProposal:
    (model, one) =>
    ({ proposals }) =>
      proposals.insert(proposalOf(model, one), 1 + one.c, 'enough', responseOf(model, one.response)),
  changeProposal: (model, { a, b, text, at, flag, response }) => {
    const phase = b === 0 ? 'done' : b === 1 ? 'thinking' : undefined;
    const changes = {
      ...(flag && { reason: text, spokenAt: at }),
      ...(phase && { phase }),
      ...(b === 3 && { status: 'refused' }),
    };
    return ({ proposals }) => proposals.change(model.id('proposal', a), changes as object, responseOf(model, response));
  },
  insertChangeRequest:
    (model, one) =>
    ({ changeRequests }) =>
      changeRequests.insert(
        changeOf(model, one),
        { own: one.c, all: 1 + one.b },
        {
          by: requesterOf(model, one),
          ...(one.flag && { replaces: model.id('change', one.c) }),
          ...(one.b === 2 && { expiredUntil: one.c * DAY }),
        },
        responseOf(model, one.response),
      ),
  endChangeRequest: (model, { a, b, text, at, flag, response }) => {
    const end = {
      status: flag ? ('refused' as const) : ('outdated' as const),
      decidedBy: { kind: 'user' as const, id: model.id('user', b) },
      ...{ decidedAt: at, reason: flag ? text : null },
    };
    return ({ changeRequests }) => changeRequests.end(model.id('change', a), end, responseOf(model, response));
  },
  insertRelease:
    (model, one) =>
    ({ firmware }) =>
      firmware.insert(releaseOf(model, one), responseOf(model, one.response)),
  updateRelease:
    (model, one) =>
    ({ firmware }) =>
      firmware.update(releaseOf(model, one), responseOf(model, one.response)),
  addFirmwareKey: (model, { a, b, c, tenant, text, response }) => {
    const key = { keyId: model.name('firmware-key', a), publicKey: text, name: text, addedBy: model.id('user', b) };
    return ({ firmwareSigning }) =>
      firmwareSigning.addKey(
        model.id('tenant', tenant),
        { ...key, createdAt: b * DAY },
        c,
        responseOf(model, response),
      );
  },
  removeFirmwareKey:
    (model, { a, tenant }) =>
    ({ firmwareSigning }) =>
      firmwareSigning.removeKey(model.id('tenant', tenant), model.name('firmware-key', a)),
  requireSignatures:
    (model, { tenant, flag }) =>
    ({ firmwareSigning }) =>
      firmwareSigning.setRequired(model.id('tenant', tenant), flag),
  beginCaVerification: (model, { a, b, c, tenant, at }) => {
    const verification = { tenantId: model.id('tenant', tenant), codeHash: model.name('code', a), expiresAt: b * DAY };
    return ({ deviceCas }) =>
      deviceCas.beginVerification({ ...verification, createdBy: model.id('user', c) }, 1 + c, at);
  },
  insertDeviceCa: (model, one) => {
    const code = { codeHash: model.name('code', one.c), now: one.at, mostOfSubject: 1 + one.a };
    return ({ deviceCas }) => deviceCas.insert(deviceCaOf(model, one), code, responseOf(model, one.response));
  },
  renewDeviceCa: (model, one) => {
    const code = { codeHash: model.name('code', one.c), now: one.at };
    return ({ deviceCas }) => deviceCas.renew(deviceCaOf(model, one), code, responseOf(model, one.response));
  },
  updateDeviceCa:
    (model, one) =>
    ({ deviceCas }) =>
      deviceCas.update(deviceCaOf(model, one)),
  deleteDeviceCa:
    (model, { a, tenant, at }) =>
    ({ deviceCas }) =>
      deviceCas.delete(model.id('tenant', tenant), model.id('ca', a), at),
  unbindSubject: (model, { a, b, c, tenant, at }) => {
    const subject = { caId: model.id('ca', a), commonName: model.name('subject', b), unboundAt: at };
    const by = {
      tenantId: model.id('tenant', tenant),
      deviceId: model.id('device', c),
      unboundBy: model.id('user', c),
    };
    return ({ deviceCas }) => deviceCas.unbind({ ...subject, ...by }, c * DAY);
  },
  bindSubject: (model, { a, b, c, tenant, at, flag }) => {
    const subject = { caId: model.id('ca', a), commonName: model.name('subject', b), boundAt: at };
    return ({ deviceCas }) =>
      deviceCas.bind(
        {
          ...{ ...subject, tenantId: model.id('tenant', tenant), deviceId: model.id('device', c) },
          boundBy: flag ? model.id('user', c) : null,
        },
        flag ? model.id('device', b) : null,
      );
  },
  recordCertificate: (model, { a, b, c, tenant, text, at }) => {
    const certificate = {
      ...{ caId: model.id('ca', a), serialNumber: model.name('serial', b), tenantId: model.id('tenant', tenant) },
      ...{ deviceId: model.id('device', c), commonName: text, fingerprint: text, notAfter: (a + b) * DAY },
    };
    return ({ deviceCas }) => deviceCas.recordCertificate(certificate, at, { since: a * DAY, most: 1 + c });
  },
  revokeCertificate: (model, { a, b, c, tenant, text, at, flag }) => {
    const revocation = {
      ...{ tenantId: model.id('tenant', tenant), caId: model.id('ca', a), serialNumber: model.name('serial', b) },
      ...{ revokedAt: at, revokedBy: model.id('user', c), reason: flag ? text : null },
    };
    return ({ deviceCas }) => deviceCas.revoke(revocation, 1 + c);
  },
  findDeviceCas:
    (model, { a, b, c, tenant, flag }) =>
    async ({ deviceCas }) => [
      await deviceCas.list(model.id('tenant', tenant)),
      await deviceCas.find(model.id('tenant', tenant), model.id('ca', a)),
      await deviceCas.count(model.id('tenant', tenant)),
      await deviceCas.bySubject(model.name('ca-subject', b), {
        ...{ tenantId: flag ? model.id('tenant', tenant) : null, most: 1 + c },
      }),
      await deviceCas.subject(model.id('ca', a), model.name('subject', b)),
      await deviceCas.isUnbound(model.id('ca', a), model.name('subject', b)),
      await deviceCas.countRegistered(model.id('ca', a)),
      await deviceCas.countDevices(model.id('ca', a)),
      await deviceCas.subjectsOf(model.id('device', c)),
      await deviceCas.certificate(model.id('ca', a), model.name('serial', b)),
      await deviceCas.certificatesOf(model.id('device', c)),
      await deviceCas.isInForce(model.id('ca', a), model.name('serial', b)),
    ],
  beginArtifact:
    (model, { a, at }) =>
    ({ firmware }) =>
      firmware.beginArtifact(model.id('artifact', a), at),
  forgetArtifacts:
    (model, { a, b }) =>
    ({ firmware }) =>
      firmware.forgetArtifacts([model.id('artifact', a), model.id('artifact', b)]),
  appendAudit:
    (model, one) =>
    ({ audit }) =>
      audit.append([auditRow(model, one), auditRow(model, { ...one, a: 3 - one.a })]),
  insertMemory: (model, { a, b, c, tenant, text, at, flag, response }) => {
    const kind = b === 0 ? 'preference' : 'observation';
    const memory = {
      id: model.id('memory', a + 4 * c),
      tenantId: model.id('tenant', tenant),
      kind,
      subject: flag ? text : null,
    };
    const more = {
      content: `${text} light`,
      tags: [`t${b}`],
      source: 's',
      writer: c === 0 ? null : { by: { kind: 'user', id: model.id('user', 0), person: c === 1 }, scopes: null },
      adoption: null,
      createdAt: (a + 4 * c) * DAY,
      expiresAt: flag ? at : null,
    };
    return ({ memories }) => memories.insert({ ...memory, ...more } as never, 1 + c, responseOf(model, response));
  },
  adoptMemory: (model, { a, c, tenant, at, response }) => {
    const adoption = { by: { kind: 'user' as const, id: model.id('user', 0), person: true }, scopes: null, at };
    return ({ memories }) =>
      memories.adopt(model.id('tenant', tenant), model.id('memory', a + 4 * c), adoption, responseOf(model, response));
  },
  deleteMemory:
    (model, { a, c, tenant, at }) =>
    ({ memories }) =>
      memories.delete(model.id('tenant', tenant), model.id('memory', a + 4 * c), at),
  insertDashboard: (model, { a, b, tenant, text, at, response }) => {
    const dashboard = dashboardOf(model, { a, b, tenant, text, at });
    return ({ dashboards }) => dashboards.insert(dashboard, responseOf(model, response));
  },
  replaceDashboard: (model, { a, b, c, tenant, text, at, response }) => {
    const dashboard = { ...dashboardOf(model, { a, b, tenant, text, at }), version: c + 1, tiles: [] };
    return ({ dashboards }) => dashboards.replace(dashboard, responseOf(model, response));
  },
  deleteDashboard:
    (model, { a, tenant }) =>
    ({ dashboards }) =>
      dashboards.delete(model.id('tenant', tenant), model.id('dashboard', a)),
  prune:
    (_, { a, b, at }) =>
    ({ retention }) =>
      retention.prune(at + a * DAY, { commands: a, journal: a + b }, 1 + b),
};

const callOf = (name: string, of: CallBuilder): fc.Arbitrary<CallFactory> =>
  inputs.map((one) => (model) => ({ name: `${name} ${JSON.stringify(one)}`, run: of(model, one) }));

export const recordCalls = [homes, groups, people, others, sessions].flatMap((area) =>
  Object.entries(area).map(([name, of]) => weighted(callOf(name, of), name === 'prune' ? 3 : 1)),
);
