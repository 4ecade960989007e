import { commandStatuses } from '../../../src/domain/command.ts';
import type { JsonObject, Uuid } from '../../../src/domain/values.ts';
import type { StoredContext } from '../../../src/machines/definition.ts';
import type { ActorKind, ActorRef, RowOutput } from '../../../src/machines/outputs.ts';
import type { ActorCommit, IdempotencyRow, OutboxKey } from '../../../src/store/contract.ts';
import type { CommittedBatch } from '../committed-batch.ts';
import { fc } from '../properties.ts';
import { type CallFactory, DAY, moment, refsOf, type StoreModel, sizes, tenant, text, weighted } from './model.ts';

const few = fc.integer({ min: 0, max: 3 });
const flag = fc.boolean();

export const answers = fc.record({
  principal: fc.constant('user'),
  path: fc.constantFrom('/homes', '/devices'),
  key: few,
  answer: text,
  state: fc.constantFrom('running' as const, 'done' as const),
  subject: fc.option(few),
  expiresAt: moment,
  /** `answer` of the row that the request found under its key, so a text that can be stored. */
  replaces: fc.option(fc.constantFrom('a', 'Lamp', '', 'ü 𝄞', 'null'), { nil: undefined }),
});
export const answerOf = (
  model: StoreModel,
  { replaces, ...fields }: typeof answers extends fc.Arbitrary<infer T> ? T : never,
): IdempotencyRow => ({
  ...fields,
  ...(replaces !== undefined && { replaces }),
  ...{ key: model.name('key', fields.key), method: 'POST', bodyHash: 'hash', status: 200 },
  subject: fields.subject === null ? null : model.id('device', fields.subject),
});

/** Random values for one actor of a batch; which of them apply depends on the kind. */
const parts = fc.record({
  n: fc.nat(4),
  /** Offset of `readVersion` from the row's version. */
  behind: fc.oneof({ arbitrary: fc.constant(0), weight: 8 }, { arbitrary: fc.constantFrom(-1, 1), weight: 1 }),
  steps: fc.integer({ min: 1, max: 2 }),
  fixedUnchanged: flag,
  tenant,
  text,
  flags: fc.tuple(flag, flag, flag),
  numbers: fc.tuple(few, few, few),
  status: fc.constantFrom(...commandStatuses),
  expiresAt: moment,
  // PostgreSQL may or may not reject two timers of one id of a batch with a version conflict, depending on its plan.
  timers: fc.uniqueArray(fc.record({ id: fc.constantFrom('a', 'b'), dueAt: moment }), {
    maxLength: 2,
    selector: ({ id }) => id,
  }),
  clear: fc.subarray(['a', 'b']),
  outbox: fc.nat(2),
  journal: flag,
  by: fc.constantFrom('user', 'device', 'system'),
  rows: fc.array(fc.tuple(fc.constantFrom('put', 'grace', 'end', 'manifest', 'tag', 'untag', 'import'), few, moment), {
    maxLength: 3,
  }),
  delivered: fc.array(fc.tuple(fc.nat(4), fc.integer({ min: 1, max: 3 }), fc.nat(1)), { maxLength: 2 }),
  answer: fc.option(answers),
  bad: fc.oneof(
    { arbitrary: fc.constant(null), weight: 40 },
    { arbitrary: fc.constantFrom('since', 'missing', 'slug', 'type'), weight: 1 },
  ),
});
type Parts = typeof parts extends fc.Arbitrary<infer T> ? T : never;

function contextOf(kind: ActorKind, { text, flags, numbers, expiresAt }: Parts): StoredContext {
  const [n, m, o] = numbers;
  switch (kind) {
    case 'device': {
      const state = { on: flags[0], deep: [n, { m }] };
      return {
        fixed: { name: text, ...(flags[2] && { tags: ['all', `t${n}`] }) },
        live: { state, stateVersion: n, reportedAt: m === 0 ? null : m },
      };
    }
    case 'command': {
      const verification = { expected: flags[1] ? { level: n } : null, observed: flags[2] ? {} : null };
      const requestedBy = { kind: 'user', id: `u${n}` };
      const confirmation = flags[0] ? { expiresAt } : null;
      return { fixed: { confirmation, note: text, requestedBy }, live: { verification } };
    }
    case 'plan':
      return { fixed: { name: flags[0] ? text : null }, live: { steps: [n, m, o] } };
    case 'tenant':
      return { fixed: { tier: text, members: n }, live: {} };
  }
}

function columnsOf(model: StoreModel, ref: ActorRef, { n, text, flags, numbers, status, bad }: Parts): JsonObject {
  const [a, b, c] = flags;
  const created_at = (n % sizes[ref.kind]) * DAY;
  switch (ref.kind) {
    case 'device':
      return {
        ...{ device_type: a ? 'smart_light' : 'smart_lock', category: b ? 'light' : null, firmware: null },
        home_id: numbers[0] < 2 ? model.id('home', numbers[0]) : null,
        room_id: numbers[1] < 2 ? model.id('room', numbers[1]) : null,
        ...{ revoked: b, deleted: numbers[2] === 0 && b, online: bad === 'type' ? 'maybe' : c, created_at },
      };
    case 'command':
      return {
        ...{ device_id: model.id('device', numbers[0]), action: text, status, critical: a, written: b, created_at },
        verification: c ? 'pending' : 'idle',
        token_hash: numbers[1] === 0 ? null : model.name('token', numbers[1]),
      };
    case 'plan': {
      const over = a || numbers[0] === 3;
      return { status: over && b ? 'rollback_failed' : 'running', over, thought: c, created_at };
    }
    case 'tenant':
      return {
        ...{ name: bad === 'missing' ? null : text, suspended: a, created_at },
        slug: model.name('slug', bad === 'slug' ? 0 : n % sizes.tenant),
      };
  }
}

function rowsOf(model: StoreModel, { kind, id }: ActorRef, { n: device, rows, tenant: t }: Parts): RowOutput[] {
  if (kind !== 'device') return [];
  return rows.map(([what, n, at]): RowOutput => {
    const deviceId = id;
    if (what === 'import') return { type: 'import.put', at };
    if (what === 'grace') return { type: 'key.grace', deviceId, keyVersion: n, graceUntil: at };
    if (what === 'end') return { type: 'keys.end', deviceId, status: 'retired', except: [n], at };
    if (what === 'tag' || what === 'untag') {
      const [tags, none] = [[`t${n}`, 'all'], []];
      const deviceCreatedAt = (device % sizes.device) * DAY;
      return {
        ...{ type: 'tags.change', deviceId, deviceCreatedAt },
        ...(what === 'tag' ? { added: tags, removed: none } : { added: none, removed: tags }),
      };
    }
    if (what === 'manifest') {
      const manifest = {
        deviceId,
        tenantId: model.id('tenant', t),
        category: null,
        version: n,
        own: true,
        capabilities: [],
        ...(n > 1 && {
          removed: [{ action: `a${n}`, safetyClass: 'CRITICAL' as const, paramSchema: null, supportsDryRun: true }],
        }),
      };
      return { type: 'manifest.put', manifest };
    }
    const key = { keyVersion: n, signingAlg: 'ed25519' as const, sealedSecret: null, publicKey: 'p', createdAt: at };
    return { type: 'key.put', deviceId, key };
  });
}

function commitOf(model: StoreModel, kind: ActorKind, generated: Parts): ActorCommit {
  // PostgreSQL may or may not reject bad data of an actor with a version conflict, depending on its plan; so it is left
  // out.
  const input = generated.behind === 0 ? generated : { ...generated, bad: null };
  const ref = refsOf(model, kind)[input.n % sizes[kind]] as ActorRef;
  const tenantId = kind === 'tenant' ? ref.id : model.id('tenant', input.tenant);
  const readVersion = Math.max(0, (model.versions.get(`${kind}:${ref.id}`) ?? 0) + input.behind);
  const version = readVersion + input.steps;
  const by = {
    kind: input.by as 'user',
    id: model.id('user', 0),
    via: 'rest',
    requestId: model.id('request', input.n),
  };
  return {
    ...{ ref, tenantId, readVersion, version, machineVersion: 1, value: { in: input.status } },
    ...{
      ...contextOf(kind, input),
      fixedUnchanged: input.fixedUnchanged && readVersion > 0,
    },
    columns: columnsOf(model, ref, input),
    since: input.bad === 'since' ? 2 ** 70 : input.expiresAt,
    journal: input.journal
      ? [{ version, at: input.expiresAt, by, event: 'request', from: null, to: 'x', data: { code: input.status } }]
      : [],
    outbox: Array.from({ length: input.outbox }, (_, n) => ({
      n,
      output: { type: 'actor.tell', to: ref, event: { type: 'device.revoked', deviceId: ref.id } },
    })),
    timers: { set: input.timers.map((one) => ({ ...one, ref, event: 'over' })), clear: [...input.clear] },
    rows: rowsOf(model, ref, input),
    samples: kind === 'device' && input.outbox === 0 ? samplesOf(input) : null,
    idempotency: input.answer === null ? null : answerOf(model, input.answer),
    delivered: input.delivered.map(([n, version, at]) => deliveredOf(model, n, version, at)),
  };
}

const samplesOf = ({ n, expiresAt }: Parts) => {
  const at = Math.abs(expiresAt);
  return { at, text: JSON.stringify([[at, at - n, n, { level: n, deep: { on: n > 1 } }]]) };
};

const deliveredOf = (model: StoreModel, n: number, version: number, at: number): OutboxKey => ({
  from: { kind: 'command', id: model.id('command', n) },
  version,
  n: at,
});

const kinds = fc.constantFrom<ActorKind>('device', 'device', 'command', 'command', 'command', 'plan', 'tenant');

const batch = fc
  .record({
    actors: fc.uniqueArray(fc.tuple(kinds, parts), {
      minLength: 1,
      maxLength: 4,
      selector: ([kind, { n }]) => `${kind}${n % sizes[kind]}`,
    }),
    atomic: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
    delivered: fc.array(fc.tuple(fc.nat(4), fc.integer({ min: 1, max: 3 }), fc.nat(1)), { maxLength: 1 }),
  })
  .map(
    ({ actors, atomic, delivered }): CallFactory =>
      (model) => {
        const commit: CommittedBatch = {
          actors: actors.map(([kind, input]) => commitOf(model, kind, input)),
          delivered: delivered.map(([n, version, at]) => deliveredOf(model, n, version, at)),
          atomic,
        };
        return {
          name: `actors.commit ${JSON.stringify(commit)}`,
          async run(store) {
            const answer = await store.actors.commit(commit.actors, commit);
            for (const { ref, version } of commit.actors) {
              if (!answer.lost.some(({ id }) => id === ref.id)) model.versions.set(`${ref.kind}:${ref.id}`, version);
            }
            return answer;
          },
        };
      },
  );

const timer = fc.tuple(kinds, fc.nat(4), fc.constantFrom('a', 'b'), fc.nat(3), moment, fc.option(moment)).map(
  ([kind, n, id, version, dueBy, until]): CallFactory =>
    (model) => {
      const ref = refsOf(model, kind)[n % sizes[kind]] as ActorRef;
      return {
        name: `a timer of ${kind} ${n}: ${id} ${version} ${dueBy} ${until}`,
        run: ({ actors }) =>
          until === null
            ? actors.dropTimers([{ ref, id, version }], dueBy)
            : actors.postponeTimer({ ref, id }, dueBy, until),
      };
    },
);

const quarantine = fc.tuple(kinds, fc.nat(4), fc.option(text)).map(
  ([kind, n, reason]): CallFactory =>
    (model) => ({
      name: `quarantine ${kind} ${n} ${reason}`,
      run: ({ actors }) => actors.quarantine(refsOf(model, kind)[n % sizes[kind]] as ActorRef, reason),
    }),
);

const telemetry = fc.record(
  { rssi: few, uptimeS: few, deviceType: fc.constantFrom('lamp', null), manifestVersion: fc.option(few) },
  { requiredKeys: [] },
);

const connections = fc.array(fc.record({ at: moment, event: fc.constantFrom('online' as const, 'offline' as const) }), {
  maxLength: 8,
});

const presence = fc
  .uniqueArray(
    fc.tuple(
      fc.nat(3),
      moment,
      fc.option(few),
      few,
      fc.array(fc.tuple(few, moment), { maxLength: 2 }),
      fc.option(telemetry),
      connections,
    ),
    { maxLength: 3, selector: ([n]) => n },
  )
  .map(
    (flushes): CallFactory =>
      (model) => {
        const rows = flushes.map(([n, lastSeen, battery, refusals, keys, reported, events]) => ({
          deviceId: model.id('device', n) as Uuid,
          lastSeen,
          refusals,
          ...(battery !== null && { battery }),
          ...(reported !== null && { telemetry: reported }),
          ...(events.length > 0 && { connections: events }),
          keys: [...new Map(keys)].map(([version, usedAt]) => ({ version, usedAt })),
        }));
        return { name: `flushPresence ${JSON.stringify(rows)}`, run: ({ devices }) => devices.flushPresence(rows) };
      },
  );

export const commitCalls = [weighted(batch, 30), weighted(timer, 3), weighted(quarantine, 2), weighted(presence, 4)];
