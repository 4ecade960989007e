import type { Proposal } from '../../../src/domain/proposal.ts';
import type { AuditRow } from '../../../src/store/contract/audit.ts';
import type { FirmwareRelease } from '../../../src/store/contract/firmware.ts';
import type { ApiKey, Store } from '../../../src/store/contract.ts';
import { fc } from '../properties.ts';
import { answerOf, answers } from './commits.ts';
import { type CallFactory, DAY, moment, type StoreModel, tenant, text, weighted } from './model.ts';

type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never;
const also = fc.option(answers);
const few = fc.nat(3);

/** A call about records, as a function of numbers, a text, a moment and a stored answer that may join it. */
type CallBuilder = (world: StoreModel, given: Given) => (store: Store) => Promise<unknown>;
const given = fc.record({ a: few, b: few, c: few, tenant, text, at: moment, flag: fc.boolean(), also });
type Given = typeof given extends fc.Arbitrary<infer T> ? T : never;

const put = (world: StoreModel, answer: Answer | null) => (answer === null ? null : answerOf(world, answer));

function proposalOf(world: StoreModel, { a, b, tenant, text, at, flag }: Given): Proposal {
  return {
    ...{
      id: world.id('proposal', a),
      tenantId: world.id('tenant', tenant),
      deviceId: world.id('device', b),
      homeId: null,
    },
    ...{
      data: { text },
      note: flag ? text : null,
      askedBy: { kind: 'user', id: world.id('user', 0) },
      status: 'pending',
    },
    ...{ reason: null, steps: [], phase: b === 0 ? 'done' : 'thinking', planId: null, createdAt: at, spokenAt: null },
  };
}

const keyOf = (world: StoreModel, { a, b, tenant, text, at, flag }: Given): ApiKey => ({
  ...{ prefix: world.name('key', a), tenantId: world.id('tenant', tenant), userId: world.id('user', b), name: text },
  ...{ hash: 'h', scopes: [], roleCap: 'admin', createdAt: a * DAY, lastUsedAt: null, revokedAt: null },
  expiresAt: flag ? at : null,
});

const releaseOf = (world: StoreModel, { a, b, c, tenant, text, flag }: Given): FirmwareRelease => ({
  ...{ id: world.id('firmware', a), tenantId: world.id('tenant', tenant), deviceType: 'lamp', version: `1.0.${b}` },
  ...{ notes: text, status: flag ? 'released' : 'draft', rolloutPercent: c === 3 ? 101 : c, url: c === 0 ? null : 'u' },
  ...{ checksum: 'c', artifact: b === 2 ? { name: world.id('artifact', c), bytes: 5 } : null },
  ...{ createdAt: a * DAY, releasedAt: null },
});

const auditRow = (world: StoreModel, { a, b, tenant, text, at, flag }: Given): AuditRow => ({
  ...{
    id: world.id('audit', a + 4 * b),
    tenantId: flag ? null : world.id('tenant', tenant),
    at,
    by: world.id('user', b),
  },
  ...{ key: null, via: 'rest', action: text, subject: `home:${a}`, outcome: 'done', requestId: world.id('request', a) },
});

const homes: Record<string, CallBuilder> = {
  insertHome: (world, { a, tenant, text, flag, also }) => {
    const home = {
      id: world.id('home', a),
      tenantId: world.id('tenant', tenant),
      name: text,
      timezone: flag ? text : null,
    };
    return ({ records }) => records.insertHome({ ...home, createdAt: a * DAY }, put(world, also));
  },
  updateHome: (world, { a, b, tenant, text, flag }) => {
    const changes = { ...(flag && { name: text }), ...(b > 1 && { timezone: b === 2 ? null : text }) };
    return ({ records }) => records.updateHome(world.id('tenant', tenant), world.id('home', a), changes);
  },
  deleteHome:
    (world, { a, tenant }) =>
    ({ records }) =>
      records.deleteHome(world.id('tenant', tenant), world.id('home', a)),
  insertRoom: (world, { a, b, tenant, text, also }) => {
    const room = {
      id: world.id('room', a),
      tenantId: world.id('tenant', tenant),
      homeId: world.id('home', b),
      name: text,
    };
    return ({ records }) => records.insertRoom({ ...room, createdAt: a * DAY }, put(world, also));
  },
  deleteRoom:
    (world, { a, b, tenant }) =>
    ({ records }) =>
      records.deleteRoom(world.id('tenant', tenant), world.id('home', b), world.id('room', a)),
};

const groups: Record<string, CallBuilder> = {
  insertGroup: (world, { a, b, tenant, text, at, also }) => {
    const group = { tenantId: world.id('tenant', tenant), slug: `g${a}`, name: text, description: null, createdAt: at };
    return ({ records }) => records.insertGroup({ ...group, deviceIds: [world.id('device', b)] }, put(world, also));
  },
  joinGroup: (world, { a, b, c, tenant, also }) => {
    const devices = [world.id('device', b), world.id('device', c)];
    return ({ records }) => records.joinGroup(world.id('tenant', tenant), `g${a}`, devices, put(world, also));
  },
  leaveGroup:
    (world, { a, b, tenant }) =>
    ({ records }) =>
      records.leaveGroup(world.id('tenant', tenant), `g${a}`, world.id('device', b)),
  deleteGroup:
    (world, { a, tenant }) =>
    ({ records }) =>
      records.deleteGroup(world.id('tenant', tenant), `g${a}`),
};

const people: Record<string, CallBuilder> = {
  upsertUser: (world, { a, text, at, flag }) => {
    const user = {
      id: world.id('user', a),
      iss: 'urn:test',
      sub: world.name('sub', a),
      email: text,
      emailVerified: flag,
    };
    return ({ identity }) => identity.upsertUser({ ...user, createdAt: at });
  },
  setRole:
    (world, { a, tenant, flag }) =>
    ({ members }) =>
      members.setRole(world.id('tenant', tenant), world.id('user', a), flag ? 'owner' : 'user'),
  remove:
    (world, { a, tenant, at }) =>
    ({ members }) =>
      members.remove(world.id('tenant', tenant), world.id('user', a), at),
  invite: (world, { a, b, c, tenant, at, flag, also }) => {
    const invitation = {
      id: world.id('invitation', a),
      tenantId: world.id('tenant', tenant),
      invitedBy: world.id('user', b),
    };
    const email = flag ? `${c}@EXAMPLE.com` : `${c}@example.com`;
    const more = { email, role: 'user', createdAt: a * DAY, expiresAt: at } as const;
    return ({ members }) => members.invite({ ...invitation, ...more }, put(world, also));
  },
  accept:
    (world, { a, b, at, also }) =>
    ({ members }) =>
      members.accept({ id: world.id('invitation', a) }, world.id('user', b), at, put(world, also)),
  offer:
    (world, { a, b, flag }) =>
    ({ members }) =>
      members.updateInvitation(world.id('invitation', a), flag ? 'admin' : 'viewer', world.id('user', b)),
  uninvite:
    (world, { a }) =>
    ({ members }) =>
      members.deleteInvitation(world.id('invitation', a)),
  insertKey:
    (world, one) =>
    ({ keys }) =>
      keys.insert(keyOf(world, one), put(world, one.also)),
  revokeKey:
    (world, { a, at, also }) =>
    ({ keys }) =>
      keys.revoke(world.name('key', a), at, put(world, also)),
  replaceKey:
    (world, one) =>
    ({ keys }) =>
      keys.replace(world.name('key', one.c), keyOf(world, one), put(world, one.also)),
  useKey:
    (world, { a, at }) =>
    ({ keys }) =>
      keys.flushUse([{ prefix: world.name('key', a), usedAt: at }]),
  revokeToken:
    (world, { a, at }) =>
    ({ identity }) =>
      identity.revokeToken(world.name('jti', a), at),
  useTokens:
    (world, { a, b, c, at }) =>
    ({ sessionTokens }) =>
      sessionTokens.markUsed(
        [a, b].map((n) => ({ deviceId: world.id('device', n), timestamp: at, nonce: `nonce${c}` })),
      ),
  markPresented:
    (world, { a, at }) =>
    ({ identity }) =>
      identity.markAgentToken(world.name('digest', a), at),
};

const others: Record<string, CallBuilder> = {
  put:
    (world, { also }) =>
    ({ idempotency }) =>
      also === null ? Promise.resolve() : idempotency.put(answerOf(world, also)),
  dropFor:
    (world, { a }) =>
    ({ idempotency }) =>
      idempotency.dropFor(world.id('device', a)),
  setFlag:
    (world, { a, flag, also }) =>
    ({ administration }) =>
      administration.setFlag(world.name('flag', a), flag, put(world, also)),
  insertProposal:
    (world, one) =>
    ({ proposals }) =>
      proposals.insert(proposalOf(world, one), 1 + one.c, 'enough', put(world, one.also)),
  changeProposal: (world, { a, b, text, at, flag, also }) => {
    const phase = b === 0 ? 'done' : b === 1 ? 'thinking' : undefined;
    const changes = {
      ...(flag && { reason: text, spokenAt: at }),
      ...(phase && { phase }),
      ...(b === 3 && { status: 'refused' }),
    };
    return ({ proposals }) => proposals.change(world.id('proposal', a), changes as object, put(world, also));
  },
  insertRelease:
    (world, one) =>
    ({ firmware }) =>
      firmware.insert(releaseOf(world, one), put(world, one.also)),
  updateRelease:
    (world, one) =>
    ({ firmware }) =>
      firmware.update(releaseOf(world, one), put(world, one.also)),
  beginArtifact:
    (world, { a, at }) =>
    ({ firmware }) =>
      firmware.beginArtifact(world.id('artifact', a), at),
  forgetArtifacts:
    (world, { a, b }) =>
    ({ firmware }) =>
      firmware.forgetArtifacts([world.id('artifact', a), world.id('artifact', b)]),
  appendAudit:
    (world, one) =>
    ({ audit }) =>
      audit.append([auditRow(world, one), auditRow(world, { ...one, a: 3 - one.a })]),
  insertMemory: (world, { a, b, c, tenant, text, at, flag, also }) => {
    const kind = b === 0 ? 'preference' : 'observation';
    const memory = {
      id: world.id('memory', a + 4 * c),
      tenantId: world.id('tenant', tenant),
      kind,
      subject: flag ? text : null,
    };
    const more = {
      content: `${text} light`,
      tags: [`t${b}`],
      source: 's',
      createdAt: (a + 4 * c) * DAY,
      expiresAt: flag ? at : null,
    };
    return ({ memories }) => memories.insert({ ...memory, ...more } as never, 1 + c, put(world, also));
  },
  deleteMemory:
    (world, { a, c, tenant, at }) =>
    ({ memories }) =>
      memories.delete(world.id('tenant', tenant), world.id('memory', a + 4 * c), at),
  prune:
    (_, { a, b, at }) =>
    ({ retention }) =>
      retention.prune(at + a * DAY, { commands: a, journal: a + b }, 1 + b),
};

const callOf = (name: string, of: CallBuilder): fc.Arbitrary<CallFactory> =>
  given.map((one) => (world) => ({ name: `${name} ${JSON.stringify(one)}`, run: of(world, one) }));

export const recordCalls = [homes, groups, people, others].flatMap((area) =>
  Object.entries(area).map(([name, of]) => weighted(callOf(name, of), name === 'prune' ? 3 : 1)),
);
