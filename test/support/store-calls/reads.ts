import type { KeyRestriction } from '../../../src/domain/key-restriction.ts';
import { shardOf } from '../../../src/domain/shards.ts';
import { NIL_UUID } from '../../../src/domain/uuid.ts';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { DeviceFilter, Page, Position, Store } from '../../../src/store/contract.ts';
import { type Call, comparable, DAY, ids, refsOf, type StoreModel, sizes, sorted } from './model.ts';

/** All data of a model that a store returns, as one comparable value per query. */

const kinds: readonly ActorKind[] = ['device', 'command', 'plan', 'tenant'];
const MOMENTS = [0, DAY, 2.5 * DAY, 10 * DAY];
const MAX = Number.MAX_SAFE_INTEGER;

/** All pages of a list, with three items each. */
async function pages<T>(read: (after?: Position) => Promise<Page<T>>): Promise<unknown[]> {
  const all: unknown[] = [];
  let after: Position | undefined;
  do {
    const page = await read(after);
    all.push(comparable(page));
    after = page.next ?? undefined;
  } while (after !== undefined && all.length < 50);
  return all;
}

type Read = (store: Store, model: StoreModel) => Promise<unknown>;

const each = async <T>(of: readonly T[], read: (one: T) => Promise<unknown>): Promise<unknown[]> => {
  const answers: unknown[] = [];
  for (const one of of) answers.push(await read(one));
  return answers;
};

/** A restriction of each kind, and some together. */
const restrictions = (model: StoreModel): KeyRestriction[] => [
  { homes: ids(model, 'home', 2) },
  { rooms: ids(model, 'room', 1), groups: ['g0'] },
  { groups: ['g1', 'g2'], categories: ['light'] },
  { devices: ids(model, 'device', 3), homes: ids(model, 'home', 1), categories: ['light', 'lock'] },
  { categories: ['light'] },
  { actions: ['turn_on'] },
];

const deviceFilters = (model: StoreModel): DeviceFilter[] => [
  ...[
    {},
    { online: true },
    { revoked: false, homeId: model.id('home', 0) },
    { category: 'light' },
    { text: 'T1' },
    { text: 'SMART_lo' },
  ],
  ...[{ tags: ['all'] }, { tags: ['t1', 'all'] }, { tags: ['none'] }, { tags: ['all'], revoked: false, text: 'light' }],
];

/** Rows of this model, out of rows of all models. */
const own = <T>(model: StoreModel, rows: readonly T[]): T[] =>
  rows.filter((row) => JSON.stringify(comparable(row)).includes(model.run));

/** The shard of each tenant of the model, and both together. */
const eachShard = (model: StoreModel, read: (shards: readonly number[]) => Promise<unknown>): Promise<unknown[]> => {
  const shards = ids(model, 'tenant', 2).map(shardOf);
  return each([...shards.map((shard) => [shard]), shards], read);
};

const actors: Record<string, Read> = {
  load: ({ actors }, model) => each(kinds, (kind) => sorted(actors.load(kind, ids(model, kind, sizes[kind])))),
  journal: ({ actors }, model) =>
    each(
      kinds.flatMap((kind) => refsOf(model, kind)),
      (ref) => actors.journal(ref, 3, 4),
    ),
  reports: ({ history }, model) => each(ids(model, 'device', sizes.device), (id) => history.tail(id, 3, MAX)),
  backlogs: async ({ history }, model) => own(model, (await history.backlogs(NIL_UUID, MAX, 2)).backlogs),
  timers: async ({ actors }, model) => sorted(actors.dueTimers(3 * DAY, MAX).then((all) => own(model, all))),
  nextTimerAt: ({ actors }) => actors.nextTimerAt(),
  shards: ({ actors }, model) =>
    eachShard(model, async (shards) => [
      await sorted(actors.dueTimers(3 * DAY, MAX, shards).then((all) => own(model, all))),
      await actors.nextTimerAt(shards),
      own(model, await actors.pendingOutbox(MAX, 0, shards))
        .map(({ from }) => from.id)
        .sort(),
    ]),
  // Within a batch the order is only that of the output numbers.
  outbox: async ({ actors }, model) => {
    const all = own(model, await actors.pendingOutbox(MAX, 0));
    const byActor = new Map<string, unknown[]>();
    for (const { seq: _, ...row } of all) byActor.set(row.from.id, [...(byActor.get(row.from.id) ?? []), row]);
    return [...byActor].sort();
  },
};

const devices: Record<string, Read> = {
  list: ({ devices }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) =>
      each(deviceFilters(model), (filter) => pages((after) => devices.list(tenantId, filter, 3, after))),
    ),
  places: ({ devices }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await devices.inRoom(tenantId, model.id('room', 0), 'light'),
      await devices.count(tenantId),
      await each(restrictions(model), (restriction) => sorted(devices.within(tenantId, restriction))),
      await pages((after) => devices.list(tenantId, { ids: ids(model, 'device', 2) }, 3, after)),
      await devices.countActiveInHome(tenantId, model.id('home', 0)),
      await sorted(devices.placedIn(tenantId, { homeId: model.id('home', 1) })),
      await sorted(devices.placedIn(tenantId, { roomId: model.id('room', 1) })),
      await sorted(devices.states(tenantId)),
      await pages((after) => devices.tags(tenantId, 2, after)),
      await pages((after) => devices.tags(tenantId, 2, after, ids(model, 'device', 2))),
    ]),
  service: async ({ devices }, model) => [await devices.countActive(), own(model, (await devices.online()).sort())],
  shards: ({ devices }, model) => eachShard(model, async (shards) => own(model, (await devices.online(shards)).sort())),
  keys: async ({ devices }, model) => [
    await devices.validKeys(ids(model, 'device', 4)),
    await each(ids(model, 'device', 4), (id) => devices.keyHistory(id)),
  ],
  reported: async ({ devices }, model) => [
    await sorted(devices.manifests(ids(model, 'device', 4))),
    await devices.lastSeen(ids(model, 'device', 4)),
  ],
};

const commands: Record<string, Read> = {
  lists: ({ commands }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) =>
      each(ids(model, 'device', 2), async (deviceId) => [
        await pages((after) => commands.list(tenantId, deviceId, 3, after)),
        await each(
          [
            { deviceIds: undefined },
            { deviceIds: [deviceId], from: 1 },
            { deviceIds: undefined, from: DAY, to: 3 * DAY },
            { deviceIds: undefined, requestedBy: 'u1' },
            { deviceIds: [deviceId, tenantId], status: 'dispatched' as const },
          ],
          (filter) => pages((after) => commands.listAll(tenantId, filter, 3, after)),
        ),
        await each([0, DAY, 3 * DAY, 3 * DAY + 600_000, 7 * DAY], async (at) => [
          ...(await commands.devicesWithUnreportedCommands(tenantId, [{ deviceId, at }])),
        ]),
        await pages((after) => commands.awaitingConfirmation(tenantId, { now: DAY, dryRuns: false }, 3, after)),
        await pages((after) => commands.awaitingConfirmation(tenantId, { now: DAY, dryRuns: true }, 3, after)),
        await pages((after) =>
          commands.awaitingConfirmation(tenantId, { now: DAY, dryRuns: false, deviceIds: [deviceId] }, 3, after),
        ),
      ]),
    ),
  open: ({ commands }, model) =>
    each(ids(model, 'device', 4), async (id) => [
      await commands.open(id),
      await commands.open(id, DAY),
      await commands.deliverable(id),
    ]),
  ofRevoked: async ({ commands }, model) => own(model, await commands.openOnRevokedDevices()),
  watching: async ({ commands }, model) => own(model, await commands.awaitingVerification()),
  shards: ({ commands }, model) =>
    eachShard(model, async (shards) => [
      own(model, await commands.openOnRevokedDevices(shards)),
      own(model, await commands.awaitingVerification(shards)),
    ]),
};

const plans: Record<string, Read> = {
  plans: ({ plans }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => plans.list(tenantId, 3, after)),
      await plans.open(tenantId),
      await pages((after) => plans.awaitingPlanner(2, after, tenantId)),
    ]),
  thought: async ({ plans }, model) => own(model, (await plans.awaitingPlanner(MAX - 1)).items),
  proposals: async ({ proposals }, model) => [
    await each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => proposals.list(tenantId, 3, after)),
      await pages((after) => proposals.open(DAY, 2, after, tenantId)),
    ]),
    own(model, (await proposals.open(0, MAX - 1)).items),
  ],
  changeRequests: async ({ changeRequests }, model) => [
    await each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => changeRequests.list(tenantId, {}, 3, after)),
      await pages((after) => changeRequests.list(tenantId, { waitingAt: 2 * DAY }, 2, after)),
    ]),
    await each(ids(model, 'change', 4), (id) => changeRequests.find(id)),
  ],
};

const records: Record<string, Read> = {
  homes: ({ records }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => records.homes(tenantId, 3, after)),
      await each(ids(model, 'home', 4), (homeId) => pages((after) => records.rooms(tenantId, homeId, 3, after))),
      await records.roomsOf(tenantId, ids(model, 'home', 4), 1),
      await pages((after) => records.homes(tenantId, 3, after, ids(model, 'home', 2))),
      await each(ids(model, 'home', 4), (homeId) =>
        pages((after) => records.rooms(tenantId, homeId, 3, after, ids(model, 'room', 2))),
      ),
      await records.roomsOf(tenantId, ids(model, 'home', 4), 1, {
        roomIds: ids(model, 'room', 1),
        wholeHomeIds: ids(model, 'home', 1),
      }),
      await pages((after) => records.groups(tenantId, 3, after, ['g0', 'g1'])),
      await pages((after) => records.groups(tenantId, 3, after)),
      [await records.countHomes(tenantId), await records.countGroups(tenantId)],
      await each(ids(model, 'home', 4), (homeId) => records.countRooms(tenantId, homeId)),
    ]),
  people: async ({ identity, members, keys, userSessions }, model) => [
    await each(ids(model, 'user', 4), (id) => identity.user(id)),
    await each(ids(model, 'user', 4), (id) => pages((after) => userSessions.list(id, 2 * DAY, 3, after))),
    await each(ids(model, 'session', 4), (id) => userSessions.find(id, DAY)),
    await userSessions.surplus(ids(model, 'user', 4), DAY, 1),
    await each([0, 1, 2], (n) => identity.userBySubject('urn:test', model.name('sub', n))),
    await each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => members.list(tenantId, 2 * DAY, 3, after)),
      [await members.countInvited(tenantId, DAY), await members.countOwners(tenantId)],
      await pages((after) => keys.list(tenantId, null, 3, after)),
    ]),
    own(model, await sorted(identity.revokedTokens(DAY))),
    own(model, await sorted(identity.agentTokens(DAY))),
    await each([0, 1, 2, 3], async (n) => [
      await identity.isTokenRevoked(model.name('jti', n)),
      await identity.isAgentToken(model.name('digest', n)),
    ]),
  ],
  answers: ({ idempotency }, model) =>
    each([0, 1, 2, 3], (n) =>
      each(['/homes', '/devices'], (path) =>
        idempotency.find({ principal: 'user', method: 'POST', path, key: model.name('key', n) }),
      ),
    ),
  flags: async ({ administration }) => administration.flags(),
  shards: async ({ administration }) =>
    (await administration.contentsByShard()).sort((one, other) => one.shard - other.shard),
  tenants: async ({ administration }, model) => own(model, (await administration.tenants(MAX - 1)).items),
  firmware: async ({ firmware }, model) => [
    await each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => firmware.list(tenantId, {}, 3, after)),
      await firmware.countReleases(tenantId),
      await firmware.countArtifacts(tenantId),
    ]),
    own(model, await firmware.orphanedArtifacts(MAX)),
  ],
  dashboards: ({ dashboards }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await pages((after) => dashboards.list(tenantId, null, 3, after)),
      await pages((after) => dashboards.list(tenantId, model.id('home', 1), 3, after)),
      await dashboards.find(tenantId, model.id('dashboard', 1)),
      await dashboards.count(tenantId),
    ]),
  memories: ({ memories }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) =>
      each(
        [
          ...[
            {},
            { tag: 't1' },
            { text: 'lamp light' },
            { text: '-lamp' },
            { suggestion: true },
            { suggestion: false },
          ],
          ...[
            { notBy: ['s'] },
            { notBy: [{ by: { kind: 'user', id: model.id('user', 0), person: true }, scopes: null }] },
          ],
        ] as const,
        (filter) => pages((after) => memories.list(tenantId, filter, 2 * DAY, 3, after)),
      ),
    ),
};

const inspection: Record<string, Read> = {
  audit: ({ audit }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) =>
      each(
        [{}, { by: model.id('user', 0) }, { from: DAY, to: 4 * DAY }, { subject: `command:${model.id('command', 0)}` }],
        (filter) => pages((after) => audit.list(tenantId, filter, 3, after)),
      ),
    ),
  actors: ({ inspection }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) =>
      each(kinds, async (kind) => [
        await pages((after) => inspection.actors(tenantId, kind, { quarantined: false }, 3, after)),
        await pages((after) => inspection.actors(tenantId, kind, { states: [[['in', 'dispatched']]] }, 3, after)),
        await sorted(inspection.names(tenantId, kind, ids(model, kind, 3)).then((names) => [...names])),
        await inspection.timers({ kind, id: model.id(kind, 1) }),
      ]),
    ),
  overview: ({ inspection }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) => each(MOMENTS, (at) => inspection.overview(tenantId, at))),
};

const lookups: Record<string, Read> = {
  // Several commands of a model may have the same token; it is not specified which one is returned.
  tokens: ({ commands }, model) =>
    each(ids(model, 'tenant', 2), (tenantId) =>
      each([1, 2, 3], async (n) => [
        (await commands.byToken(tenantId, null, model.name('token', n))) !== null,
        (await commands.byToken(tenantId, model.id('device', 1), model.name('token', n))) !== null,
      ]),
    ),
  places: ({ records }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await each(ids(model, 'home', 4), (id) => records.home(tenantId, id)),
      await each(ids(model, 'room', 4), (id) => records.room(tenantId, id)),
      await sorted(records.findHomes(tenantId, ids(model, 'home', 3))),
      await sorted(records.findRooms(tenantId, ids(model, 'room', 3))),
      await each(['g0', 'g1', 'g2'], (slug) => records.group(tenantId, slug)),
    ]),
  devices: ({ devices, inspection }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await sorted(devices.find(tenantId, ids(model, 'device', 3))),
      await each(refsOf(model, 'device'), (ref) => inspection.actor(tenantId, ref)),
      await each(refsOf(model, 'command'), (ref) => inspection.journal(tenantId, ref, 2, 4)),
    ]),
  people: ({ identity, members, keys }, model) =>
    each(MOMENTS, async (at) => [
      await each(ids(model, 'tenant', 2), async (tenantId) => [
        await each([...ids(model, 'user', 4), ...ids(model, 'invitation', 4)], (id) => members.find(tenantId, id, at)),
        await each([0, 1, 2, 3], async (n) => (await members.byEmail(tenantId, `${n}@Example.com`, at)) !== null),
      ]),
      await each(ids(model, 'invitation', 4), (id) => members.invitation(id, at)),
      await each([0, 1, 2, 3], (n) => members.invitationsFor(`${n}@Example.com`, at, 2)),
      await each(ids(model, 'user', 4), (id) => sorted(keys.live(id, at))),
      await each([0, 1, 2, 3], (n) => keys.find(model.name('key', n))),
      await each([0, 1], (n) => identity.slugTaken(model.name('slug', n))),
    ]),
  firmware: ({ firmware, proposals }, model) =>
    each(ids(model, 'tenant', 2), async (tenantId) => [
      await each(ids(model, 'firmware', 4), (id) => firmware.find(tenantId, id)),
      await each(ids(model, 'firmware', 4), (id) => firmware.findInAnyTenant(id)),
      await sorted(firmware.released(tenantId, 'lamp')),
      await each(ids(model, 'proposal', 4), (id) => proposals.find(id)),
    ]),
  pruned: ({ retention }) => retention.lastPrunedAt(),
  // Text parameters reject NUL, also for reads.
  nulInSlug: ({ identity }) => identity.slugTaken('a\0b'),
  nulInGroup: ({ records }, model) => records.group(model.id('tenant', 0), 'a\0b'),
  nulInPrefix: ({ keys }) => keys.find('a\0b'),
};

const areas = [actors, devices, commands, plans, records, inspection, lookups];

/** All queries about the model, as calls. */
export const readCalls = (model: StoreModel): Call[] =>
  areas.flatMap((area) =>
    Object.entries(area).map(([name, read]) => ({ name: `read ${name}`, run: (store: Store) => read(store, model) })),
  );
