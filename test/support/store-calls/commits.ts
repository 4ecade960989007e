import { commandStatuses } from '../../../src/domain/command.ts';
import type { JsonObject, Uuid } from '../../../src/domain/values.ts';
import type { ActorKind, ActorRef, RowOutput } from '../../../src/machines/outputs.ts';
import type { ActorCommit, BatchCommit, IdempotencyRow, OutboxKey } from '../../../src/store/contract.ts';
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
  /** Of the row that the request found under its key, so a text that can be stored. */
  replaces: fc.option(fc.constantFrom('a', 'Lamp', '', 'ü 𝄞', 'null'), { nil: undefined }),
});
export const answerOf = (
  world: StoreModel,
  { replaces, ...given }: typeof answers extends fc.Arbitrary<infer T> ? T : never,
): IdempotencyRow => ({
  ...given,
  ...(replaces !== undefined && { replaces }),
  ...{ key: world.name('key', given.key), method: 'POST', bodyHash: 'hash', status: 200 },
  subject: given.subject === null ? null : world.id('device', given.subject),
});

/** Chance for one actor of a turn; what of it applies depends on the kind. */
const parts = fc.record({
  n: fc.nat(4),
  /** Which version it was decided on, from the row's. */
  behind: fc.oneof({ arbitrary: fc.constant(0), weight: 8 }, { arbitrary: fc.constantFrom(-1, 1), weight: 1 }),
  steps: fc.integer({ min: 1, max: 2 }),
  settled: flag,
  tenant,
  text,
  flags: fc.tuple(flag, flag, flag),
  numbers: fc.tuple(few, few, few),
  status: fc.constantFrom(...commandStatuses),
  expiresAt: moment,
  timers: fc.array(fc.record({ id: fc.constantFrom('a', 'b'), dueAt: moment }), { maxLength: 2 }),
  clear: fc.subarray(['a', 'b']),
  outbox: fc.nat(2),
  journal: flag,
  by: fc.constantFrom('user', 'device', 'system'),
  rows: fc.array(fc.tuple(fc.constantFrom('put', 'grace', 'end', 'manifest'), few, moment), { maxLength: 3 }),
  delivered: fc.array(fc.tuple(fc.nat(4), fc.integer({ min: 1, max: 3 }), fc.nat(1)), { maxLength: 2 }),
  answer: fc.option(answers),
  bad: fc.oneof(
    { arbitrary: fc.constant(null), weight: 40 },
    { arbitrary: fc.constantFrom('since', 'missing', 'slug', 'type'), weight: 1 },
  ),
});
type Parts = typeof parts extends fc.Arbitrary<infer T> ? T : never;

const liveFields: Readonly<Record<ActorKind, ReadonlySet<string>>> = {
  device: new Set(['state', 'stateVersion', 'reportedAt']),
  command: new Set(['verification']),
  plan: new Set(['steps']),
  tenant: new Set(),
};

function contextOf(kind: ActorKind, { text, flags, numbers, expiresAt }: Parts): JsonObject {
  const [n, m, o] = numbers;
  switch (kind) {
    case 'device':
      return { name: text, state: { on: flags[0], deep: [n, { m }] }, stateVersion: n, reportedAt: m === 0 ? null : m };
    case 'command': {
      const verification = { expected: flags[1] ? { level: n } : null, observed: flags[2] ? {} : null };
      return { verification, confirmation: flags[0] ? { expiresAt } : null, note: text };
    }
    case 'plan':
      return { name: flags[0] ? text : null, steps: [n, m, o] };
    case 'tenant':
      return { tier: text, members: n };
  }
}

function columnsOf(world: StoreModel, ref: ActorRef, { n, text, flags, numbers, status, bad }: Parts): JsonObject {
  const [a, b, c] = flags;
  const created_at = (n % sizes[ref.kind]) * DAY;
  switch (ref.kind) {
    case 'device':
      return {
        ...{ device_type: a ? 'smart_light' : 'smart_lock', category: b ? 'light' : null, firmware: null },
        home_id: numbers[0] < 2 ? world.id('home', numbers[0]) : null,
        room_id: numbers[1] < 2 ? world.id('room', numbers[1]) : null,
        ...{ revoked: b, deleted: numbers[2] === 0 && b, online: bad === 'type' ? 'maybe' : c, created_at },
      };
    case 'command':
      return {
        ...{ device_id: world.id('device', numbers[0]), action: text, status, critical: a, written: b, created_at },
        verification: c ? 'pending' : 'idle',
        token_hash: numbers[1] === 0 ? null : world.name('token', numbers[1]),
      };
    case 'plan': {
      const over = a || numbers[0] === 3;
      return { status: over && b ? 'rollback_failed' : 'running', over, thought: c, created_at };
    }
    case 'tenant':
      return {
        ...{ name: bad === 'missing' ? null : text, suspended: a, created_at },
        slug: world.name('slug', bad === 'slug' ? 0 : n % sizes.tenant),
      };
  }
}

function rowsOf(world: StoreModel, { kind, id }: ActorRef, { rows, tenant: t }: Parts): RowOutput[] {
  if (kind !== 'device') return [];
  return rows.map(([what, n, at]): RowOutput => {
    const deviceId = id;
    if (what === 'grace') return { type: 'key.grace', deviceId, keyVersion: n, graceUntil: at };
    if (what === 'end') return { type: 'keys.end', deviceId, status: 'retired', except: [n], at };
    if (what === 'manifest') {
      const manifest = {
        deviceId,
        tenantId: world.id('tenant', t),
        category: null,
        version: n,
        own: true,
        capabilities: [],
      };
      return { type: 'manifest.put', manifest };
    }
    const key = { keyVersion: n, signingAlg: 'ed25519' as const, sealedSecret: null, publicKey: 'p', createdAt: at };
    return { type: 'key.put', deviceId, key };
  });
}

function commitOf(world: StoreModel, kind: ActorKind, asked: Parts): ActorCommit {
  // Whether bad data of an actor that has another version is refused depends on the server's plan: it need not be read.
  const given = asked.behind === 0 ? asked : { ...asked, bad: null };
  const ref = refsOf(world, kind)[given.n % sizes[kind]] as ActorRef;
  const tenantId = kind === 'tenant' ? ref.id : world.id('tenant', given.tenant);
  const readVersion = Math.max(0, (world.versions.get(`${kind}:${ref.id}`) ?? 0) + given.behind);
  const version = readVersion + given.steps;
  const by = {
    kind: given.by as 'user',
    id: world.id('user', 0),
    via: 'rest',
    requestId: world.id('request', given.n),
  };
  return {
    ...{ ref, tenantId, readVersion, version, machineVersion: 1, value: { in: given.status } },
    ...{
      context: contextOf(kind, given),
      liveFields: liveFields[kind],
      unchangedBase: given.settled && readVersion > 0,
    },
    columns: columnsOf(world, ref, given),
    since: given.bad === 'since' ? 2 ** 70 : given.expiresAt,
    journal: given.journal
      ? [{ version, at: given.expiresAt, by, event: 'request', from: null, to: 'x', data: { code: given.status } }]
      : [],
    outbox: Array.from({ length: given.outbox }, (_, n) => ({
      n,
      output: { type: 'actor.tell', to: ref, event: { type: 'device.revoked', deviceId: ref.id } },
    })),
    timers: { set: given.timers.map((one) => ({ ...one, ref, event: 'over' })), clear: [...given.clear] },
    rows: rowsOf(world, ref, given),
    idempotency: given.answer === null ? null : answerOf(world, given.answer),
    delivered: given.delivered.map(([n, version, at]) => deliveredOf(world, n, version, at)),
  };
}

const deliveredOf = (world: StoreModel, n: number, version: number, at: number): OutboxKey => ({
  from: { kind: 'command', id: world.id('command', n) },
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
    whole: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
    delivered: fc.array(fc.tuple(fc.nat(4), fc.integer({ min: 1, max: 3 }), fc.nat(1)), { maxLength: 1 }),
  })
  .map(
    ({ actors, whole, delivered }): CallFactory =>
      (world) => {
        const commit: BatchCommit = {
          actors: actors.map(([kind, given]) => commitOf(world, kind, given)),
          delivered: delivered.map(([n, version, at]) => deliveredOf(world, n, version, at)),
          atomic: whole,
        };
        return {
          name: `actors.commit ${JSON.stringify(commit)}`,
          async run(store) {
            const answer = await store.actors.commit(commit);
            for (const { ref, version } of commit.actors) {
              if (!answer.lost.some(({ id }) => id === ref.id)) world.versions.set(`${ref.kind}:${ref.id}`, version);
            }
            return answer;
          },
        };
      },
  );

const timer = fc.tuple(kinds, fc.nat(4), fc.constantFrom('a', 'b'), fc.nat(3), moment, fc.option(moment)).map(
  ([kind, n, id, version, dueBy, until]): CallFactory =>
    (world) => {
      const ref = refsOf(world, kind)[n % sizes[kind]] as ActorRef;
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
    (world) => ({
      name: `quarantine ${kind} ${n} ${reason}`,
      run: ({ actors }) => actors.quarantine(refsOf(world, kind)[n % sizes[kind]] as ActorRef, reason),
    }),
);

const presence = fc
  .uniqueArray(fc.tuple(fc.nat(3), moment, fc.option(few), few, fc.array(fc.tuple(few, moment), { maxLength: 2 })), {
    maxLength: 3,
    selector: ([n]) => n,
  })
  .map(
    (given): CallFactory =>
      (world) => {
        const rows = given.map(([n, lastSeen, battery, refusals, keys]) => ({
          deviceId: world.id('device', n) as Uuid,
          lastSeen,
          refusals,
          ...(battery !== null && { battery }),
          keys: [...new Map(keys)].map(([version, usedAt]) => ({ version, usedAt })),
        }));
        return { name: `flushPresence ${JSON.stringify(rows)}`, run: ({ devices }) => devices.flushPresence(rows) };
      },
  );

export const commitCalls = [weighted(batch, 30), weighted(timer, 3), weighted(quarantine, 2), weighted(presence, 4)];
