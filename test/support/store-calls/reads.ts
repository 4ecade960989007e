import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { Page, Position, Store } from '../../../src/store/contract.ts';
import { type Call, comparable, DAY, ids, refsOf, type StoreModel, sizes, sorted } from './model.ts';

/** Everything that a store shows of a world, as one comparable value for each question. */

const kinds: readonly ActorKind[] = ['device', 'command', 'plan', 'tenant'];
const MOMENTS = [0, DAY, 2.5 * DAY, 10 * DAY];
const MAX = Number.MAX_SAFE_INTEGER;

/** All pages of a list, three items each. */
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

type Read = (store: Store, world: StoreModel) => Promise<unknown>;

const each = async <T>(of: readonly T[], read: (one: T) => Promise<unknown>): Promise<unknown[]> => {
  const answers: unknown[] = [];
  for (const one of of) answers.push(await read(one));
  return answers;
};

/** Of rows that all worlds share, those of this one. */
const own = <T>(world: StoreModel, rows: readonly T[]): T[] =>
  rows.filter((row) => JSON.stringify(comparable(row)).includes(world.run));

const actors: Record<string, Read> = {
  load: ({ actors }, world) => each(kinds, (kind) => sorted(actors.load(kind, ids(world, kind, sizes[kind])))),
  journal: ({ actors }, world) =>
    each(
      kinds.flatMap((kind) => refsOf(world, kind)),
      (ref) => actors.journal(ref, 3, 4),
    ),
  timers: async ({ actors }, world) => sorted(actors.dueTimers(3 * DAY, MAX).then((all) => own(world, all))),
  nextTimerAt: ({ actors }) => actors.nextTimerAt(),
  // Within a turn the order is that of the numbers alone.
  outbox: async ({ actors }, world) => {
    const all = own(world, await actors.pendingOutbox(MAX, 0));
    const byActor = new Map<string, unknown[]>();
    for (const { seq: _, ...row } of all) byActor.set(row.from.id, [...(byActor.get(row.from.id) ?? []), row]);
    return [...byActor].sort();
  },
};

const devices: Record<string, Read> = {
  list: ({ devices }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) =>
      each([{}, { online: true }, { revoked: false, homeId: world.id('home', 0) }], (filter) =>
        pages((after) => devices.list(tenantId, filter, 3, after)),
      ),
    ),
  places: ({ devices }, world) =>
    each(ids(world, 'tenant', 2), async (tenantId) => [
      await devices.inRoom(tenantId, world.id('room', 0), 'light'),
      await devices.count(tenantId),
      await devices.countActiveInHome(tenantId, world.id('home', 0)),
      await sorted(devices.placedIn(tenantId, { homeId: world.id('home', 1) })),
      await sorted(devices.placedIn(tenantId, { roomId: world.id('room', 1) })),
      await sorted(devices.states(tenantId)),
    ]),
  whole: async ({ devices }, world) => [await devices.countActive(), own(world, (await devices.online()).sort())],
  keys: async ({ devices }, world) => [
    await devices.liveKeys(ids(world, 'device', 4)),
    await each(ids(world, 'device', 4), (id) => devices.keyHistory(id)),
  ],
  told: async ({ devices }, world) => [
    await sorted(devices.manifests(ids(world, 'device', 4))),
    await devices.lastSeen(ids(world, 'device', 4)),
  ],
};

const commands: Record<string, Read> = {
  lists: ({ commands }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) =>
      each(ids(world, 'device', 2), async (deviceId) => [
        await pages((after) => commands.list(tenantId, deviceId, 3, after)),
        await pages((after) => commands.awaitingConfirmation(tenantId, DAY, 3, after)),
      ]),
    ),
  open: ({ commands }, world) =>
    each(ids(world, 'device', 4), async (id) => [
      await commands.open(id),
      await commands.open(id, DAY),
      await commands.deliverable(id),
    ]),
  ofRevoked: async ({ commands }, world) => own(world, await commands.openOnRevokedDevices()),
  watching: async ({ commands }, world) => own(world, await commands.awaitingVerification()),
};

const plans: Record<string, Read> = {
  plans: ({ plans }, world) =>
    each(ids(world, 'tenant', 2), async (tenantId) => [
      await pages((after) => plans.list(tenantId, 3, after)),
      await plans.open(tenantId),
      await pages((after) => plans.awaitingPlanner(2, after, tenantId)),
    ]),
  thought: async ({ plans }, world) => own(world, (await plans.awaitingPlanner(MAX - 1)).items),
  proposals: async ({ proposals }, world) => [
    await each(ids(world, 'tenant', 2), async (tenantId) => [
      await pages((after) => proposals.list(tenantId, 3, after)),
      await pages((after) => proposals.open(DAY, 2, after, tenantId)),
    ]),
    own(world, (await proposals.open(0, MAX - 1)).items),
  ],
};

const records: Record<string, Read> = {
  homes: ({ records }, world) =>
    each(ids(world, 'tenant', 2), async (tenantId) => [
      await pages((after) => records.homes(tenantId, 3, after)),
      await each(ids(world, 'home', 4), (homeId) => pages((after) => records.rooms(tenantId, homeId, 3, after))),
      await records.roomsOf(tenantId, ids(world, 'home', 4), 1),
      await pages((after) => records.groups(tenantId, 3, after)),
    ]),
  people: async ({ identity, members, keys }, world) => [
    await each(ids(world, 'user', 4), (id) => identity.user(id)),
    await each(ids(world, 'tenant', 2), async (tenantId) => [
      await pages((after) => members.list(tenantId, 2 * DAY, 3, after)),
      [await members.countInvited(tenantId, DAY), await members.countOwners(tenantId)],
      await pages((after) => keys.list(tenantId, null, 3, after)),
    ]),
    own(world, await sorted(identity.revokedTokens(DAY))),
    own(world, await sorted(identity.agentTokens(DAY))),
  ],
  answers: ({ idempotency }, world) =>
    each([0, 1, 2, 3], (n) =>
      each(['/homes', '/devices'], (path) =>
        idempotency.find({ principal: 'user', method: 'POST', path, key: world.name('key', n) }),
      ),
    ),
  flags: async ({ administration }) => administration.flags(),
  tenants: async ({ administration }, world) => own(world, (await administration.tenants(MAX - 1)).items),
  firmware: async ({ firmware }, world) => [
    await each(ids(world, 'tenant', 2), async (tenantId) => [
      await pages((after) => firmware.list(tenantId, {}, 3, after)),
      await firmware.countArtifacts(tenantId),
    ]),
    own(world, await firmware.orphanedArtifacts(MAX)),
  ],
  memories: ({ memories }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) =>
      each([{}, { tag: 't1' }, { text: 'lamp light' }, { text: '-lamp' }], (filter) =>
        pages((after) => memories.list(tenantId, filter, 2 * DAY, 3, after)),
      ),
    ),
};

const inspection: Record<string, Read> = {
  audit: ({ audit }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) =>
      each(
        [{}, { by: world.id('user', 0) }, { from: DAY, to: 4 * DAY }, { subject: `command:${world.id('command', 0)}` }],
        (filter) => pages((after) => audit.list(tenantId, filter, 3, after)),
      ),
    ),
  actors: ({ inspection }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) =>
      each(kinds, async (kind) => [
        await pages((after) => inspection.actors(tenantId, kind, { quarantined: false }, 3, after)),
        await pages((after) => inspection.actors(tenantId, kind, { states: [[['in', 'dispatched']]] }, 3, after)),
        await inspection.timers({ kind, id: world.id(kind, 1) }),
      ]),
    ),
  overview: ({ inspection }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) => each(MOMENTS, (at) => inspection.overview(tenantId, at))),
};

const lookups: Record<string, Read> = {
  // Several commands of a world may have one token; which of them answers is left open.
  tokens: ({ commands }, world) =>
    each(ids(world, 'tenant', 2), (tenantId) =>
      each([1, 2, 3], async (n) => [
        (await commands.byToken(tenantId, null, world.name('token', n))) !== null,
        (await commands.byToken(tenantId, world.id('device', 1), world.name('token', n))) !== null,
      ]),
    ),
  places: ({ records }, world) =>
    each(ids(world, 'tenant', 2), async (tenantId) => [
      await each(ids(world, 'home', 4), (id) => records.home(tenantId, id)),
      await each(ids(world, 'room', 4), (id) => records.room(tenantId, id)),
      await sorted(records.findHomes(tenantId, ids(world, 'home', 3))),
      await sorted(records.findRooms(tenantId, ids(world, 'room', 3))),
      await each(['g0', 'g1', 'g2'], (slug) => records.group(tenantId, slug)),
    ]),
  devices: ({ devices, inspection }, world) =>
    each(ids(world, 'tenant', 2), async (tenantId) => [
      await sorted(devices.find(tenantId, ids(world, 'device', 3))),
      await each(refsOf(world, 'device'), (ref) => inspection.actor(tenantId, ref)),
      await each(refsOf(world, 'command'), (ref) => inspection.journal(tenantId, ref, 2, 4)),
    ]),
  people: ({ identity, members, keys }, world) =>
    each(MOMENTS, async (at) => [
      await each(ids(world, 'tenant', 2), async (tenantId) => [
        await each([...ids(world, 'user', 4), ...ids(world, 'invitation', 4)], (id) => members.find(tenantId, id, at)),
        await each([0, 1, 2, 3], async (n) => (await members.byEmail(tenantId, `${n}@Example.com`, at)) !== null),
      ]),
      await each(ids(world, 'invitation', 4), (id) => members.invitation(id, at)),
      await each([0, 1, 2, 3], (n) => members.invitationsFor(`${n}@Example.com`, at, 2)),
      await each(ids(world, 'user', 4), (id) => sorted(keys.live(id, at))),
      await each([0, 1, 2, 3], (n) => keys.find(world.name('key', n))),
      await each([0, 1], (n) => identity.slugTaken(world.name('slug', n))),
    ]),
  firmware: ({ firmware, proposals }, world) =>
    each(ids(world, 'tenant', 2), async (tenantId) => [
      await each(ids(world, 'firmware', 4), (id) => firmware.find(tenantId, id)),
      await each(ids(world, 'firmware', 4), (id) => firmware.findInAnyTenant(id)),
      await sorted(firmware.released(tenantId, 'lamp')),
      await each(ids(world, 'proposal', 4), (id) => proposals.find(id)),
    ]),
  pruned: ({ retention }) => retention.lastPrunedAt(),
  // No text parameter holds NUL, of a read either.
  nulInSlug: ({ identity }) => identity.slugTaken('a\0b'),
  nulInGroup: ({ records }, world) => records.group(world.id('tenant', 0), 'a\0b'),
  nulInPrefix: ({ keys }) => keys.find('a\0b'),
};

const areas = [actors, devices, commands, plans, records, inspection, lookups];

/** Every question about the world, as calls. */
export const readCalls = (world: StoreModel): Call[] =>
  areas.flatMap((area) =>
    Object.entries(area).map(([name, read]) => ({ name: `read ${name}`, run: (store: Store) => read(store, world) })),
  );
