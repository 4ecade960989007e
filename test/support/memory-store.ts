import type { EpochMs, JsonObject, Uuid } from '../../src/domain/values.ts';
import type { CommandContext } from '../../src/machines/command-types.ts';
import type { DeviceContext } from '../../src/machines/device-types.ts';
import type { AuditRow, AuditStore } from '../../src/store/contract/audit.ts';
import type { InspectionStore } from '../../src/store/contract/inspection.ts';
import type {
  DeviceRow,
  DeviceStore,
  Group,
  Home,
  IdempotencyRow,
  IdempotencyStore,
  IdentityStore,
  PlanStore,
  RecordStore,
  Room,
  Store,
  StoredActor,
  TurnCommit,
  User,
} from '../../src/store/contract.ts';
import { agentMemory } from './agent-memory.ts';
import { MemoryActors } from './memory-actors.ts';
import { memoryAdministration, memoryFirmware } from './memory-firmware.ts';
import { pageOf } from './memory-pages.ts';
import { MemoryPeople } from './memory-people.ts';
import { MemoryProposals, oldestFirst } from './memory-proposals.ts';

/**
 * A store in memory for tests of what stands on it: plain records, identities and idempotency rows by the contract,
 * actors as `MemoryActors` has them. The real stores have a suite of their own.
 */
export class MemoryStore implements Store {
  actors = new MemoryActors();
  turnsInFlight = 1;
  homes = new Map<Uuid, Home>();
  rooms = new Map<Uuid, Room>();
  groups = new Map<string, Group>();
  users = new Map<Uuid, User>();
  revoked = new Map<string, EpochMs>();
  presented = new Map<string, EpochMs>();
  people = new MemoryPeople({
    users: this.users,
    keep: (row) => this.keep(row),
    drop: (subject) => this.drop(subject),
    tenantName: (id) => String([...this.actors.rows.values()].find(({ ref }) => ref.id === id)?.context.name),
    check: () => this.check(),
  });
  keys = this.people.keys;
  members = this.people.members;
  flags: Record<string, boolean> = {};
  idempotencyRows = new Map<string, IdempotencyRow>();
  /** How often the store was asked for a user: what identity may not do for each request. */
  userReads = 0;
  /** Throws what every call to records and identities then throws. */
  trouble: (() => never) | null = null;
  reachable = true;

  constructor() {
    this.actors.after = (turn) => this.follow(turn);
  }

  private check(): void {
    this.trouble?.();
  }

  /** Rows that joined a turn. */
  private follow(turn: TurnCommit): void {
    for (const { rows, idempotency } of turn.actors) {
      if (idempotency !== null) this.keep(idempotency);
      for (const row of rows) {
        if (row.type === 'proposal.accept') this.proposals.accept(row.proposalId, row.planId);
        if (row.type !== 'member.bind') continue;
        const user = this.users.get(row.userId);
        if (user !== undefined) this.users.set(user.id, { ...user, tenantId: row.tenantId, role: row.role });
      }
    }
  }

  private keep(row: IdempotencyRow | null | undefined): void {
    if (row) this.idempotencyRows.set(JSON.stringify([row.principal, row.method, row.path, row.key]), row);
  }

  private drop(subject: string): void {
    for (const [key, row] of this.idempotencyRows) if (row.subject === subject) this.idempotencyRows.delete(key);
  }

  private contexts(): { context: DeviceContext; columns: JsonObject }[] {
    return [...this.actors.rows.values()]
      .filter(({ ref }) => ref.kind === 'device')
      .map((row) => ({
        context: row.context as unknown as DeviceContext,
        columns: (row as unknown as { columns: JsonObject }).columns,
      }));
  }

  records: RecordStore = {
    insertHome: async (home, also) => {
      this.check();
      this.homes.set(home.id, home);
      this.keep(also);
    },
    updateHome: async (tenantId, id, changes) => {
      this.check();
      const home = this.homes.get(id);
      if (home?.tenantId !== tenantId) return null;
      const updated = { ...home, ...changes };
      this.homes.set(id, updated);
      return updated;
    },
    deleteHome: async (tenantId, id) => {
      this.check();
      if (this.homes.get(id)?.tenantId !== tenantId) return false;
      for (const room of this.rooms.values()) if (room.homeId === id) this.rooms.delete(room.id);
      return this.homes.delete(id);
    },
    home: async (tenantId, id) => {
      this.check();
      const home = this.homes.get(id);
      return home?.tenantId === tenantId ? home : null;
    },
    homes: async (tenantId, limit, after) => {
      this.check();
      return pageOf(
        [...this.homes.values()].filter((home) => home.tenantId === tenantId),
        (home) => home,
        limit,
        after,
      );
    },
    findHomes: async (tenantId, ids) =>
      [...this.homes.values()].filter((one) => one.tenantId === tenantId && ids.includes(one.id)),
    insertRoom: async (room, also) => {
      this.check();
      this.rooms.set(room.id, room);
      this.keep(also);
    },
    deleteRoom: async (tenantId, homeId, id) => {
      const room = this.rooms.get(id);
      return room?.tenantId === tenantId && room.homeId === homeId && this.rooms.delete(id);
    },
    room: async (tenantId, id) => {
      this.check();
      const room = this.rooms.get(id);
      return room?.tenantId === tenantId ? room : null;
    },
    rooms: async (tenantId, homeId, limit, after) => {
      const mine = [...this.rooms.values()].filter((room) => room.tenantId === tenantId && room.homeId === homeId);
      return pageOf(mine, (room) => room, limit, after);
    },
    findRooms: async (tenantId, ids) =>
      [...this.rooms.values()].filter((one) => one.tenantId === tenantId && ids.includes(one.id)),
    roomsOf: async (tenantId, homeIds, each) => {
      const pages = homeIds.map((homeId) => this.records.rooms(tenantId, homeId, each));
      return (await Promise.all(pages)).flatMap(({ items }) => items);
    },
    insertGroup: async (group, also) => {
      this.check();
      const key = `${group.tenantId}/${group.slug}`;
      if (this.groups.has(key)) return false;
      this.groups.set(key, group);
      this.keep(also);
      return true;
    },
    joinGroup: async (tenantId, slug, deviceIds, also) => {
      const group = this.groups.get(`${tenantId}/${slug}`);
      if (group === undefined) return null;
      const joined = { ...group, deviceIds: [...new Set([...group.deviceIds, ...deviceIds])] };
      this.groups.set(`${tenantId}/${slug}`, joined);
      this.keep(also);
      return joined;
    },
    leaveGroup: async (tenantId, slug, deviceId) => {
      const group = this.groups.get(`${tenantId}/${slug}`);
      if (!group?.deviceIds.includes(deviceId)) return false;
      const deviceIds = group.deviceIds.filter((id) => id !== deviceId);
      this.groups.set(`${tenantId}/${slug}`, { ...group, deviceIds });
      return true;
    },
    deleteGroup: async (tenantId, slug) => this.groups.delete(`${tenantId}/${slug}`),
    group: async (tenantId, slug) => this.groups.get(`${tenantId}/${slug}`) ?? null,
    groups: async (tenantId, limit, after) => {
      const mine = [...this.groups.values()].filter((group) => group.tenantId === tenantId);
      return pageOf(mine, ({ createdAt, slug }) => ({ createdAt, id: slug }), limit, after);
    },
  };

  identity: IdentityStore = {
    upsertUser: async (subject) => {
      this.check();
      const known = [...this.users.values()].find(({ iss, sub }) => iss === subject.iss && sub === subject.sub);
      const user: User = known
        ? { ...known, ...(subject.emailVerified && { email: subject.email, emailVerified: true }) }
        : { ...subject, tenantId: null, role: 'none' };
      this.users.set(user.id, user);
      return user;
    },
    user: async (id) => {
      this.check();
      this.userReads++;
      return this.users.get(id) ?? null;
    },
    slugTaken: async (slug) =>
      [...this.actors.rows.values()].some(({ ref, context }) => ref.kind === 'tenant' && context.slug === slug),
    revokeToken: async (jti, expiresAt) => {
      this.check();
      this.revoked.set(jti, expiresAt);
    },
    revokedTokens: async () => [...this.revoked].map(([jti, expiresAt]) => ({ jti, expiresAt })),
    markPresented: async (digest, expiresAt) => {
      this.check();
      this.presented.set(digest, expiresAt);
    },
    presentedTokens: async (now) =>
      [...this.presented].filter(([, end]) => end > now).map(([digest, expiresAt]) => ({ digest, expiresAt })),
  };

  idempotency: IdempotencyStore = {
    find: async ({ principal, method, path, key }) => {
      this.check();
      return this.idempotencyRows.get(JSON.stringify([principal, method, path, key])) ?? null;
    },
    put: async (row) => this.keep(row),
    dropFor: async (subject) => this.drop(subject),
  };

  devices = {
    online: async () => [],
    flushPresence: async () => {},
    countActive: async () => this.contexts().filter(({ columns }) => !columns.revoked && !columns.deleted).length,
    activeInHome: async (tenantId, homeId) =>
      this.contexts().filter(
        ({ context, columns }) => context.tenantId === tenantId && columns.home_id === homeId && !columns.revoked,
      ).length,
    placedIn: async (tenantId, place) =>
      this.contexts()
        .filter(({ context }) => context.tenantId === tenantId)
        .filter(({ columns }) =>
          'homeId' in place ? columns.home_id === place.homeId : columns.room_id === place.roomId,
        )
        .map(({ context }) => context.id),
    find: async (tenantId, ids) =>
      this.contexts()
        .filter(({ context }) => context.tenantId === tenantId && ids.includes(context.id))
        .map(({ context }) => ({ id: context.id }) as DeviceRow),
    manifests: async () => [],
  } as Partial<DeviceStore> as DeviceStore;

  commands = {
    open: async () => [],
    pending: async () => [],
    watching: async () => [],
    awaiting: async (tenantId, now, limit, after) => {
      const waiting = [...this.actors.rows.values()].filter(({ ref, context, tenantId: of }) => {
        const { confirmation } = context as unknown as CommandContext;
        return ref.kind === 'command' && of === tenantId && confirmation !== null && confirmation.expiresAt > now;
      });
      const place = ({ context }: StoredActor) => ({ createdAt: Number(context.requestedAt), id: String(context.id) });
      return pageOf(waiting, place, limit, after);
    },
  } as Partial<Store['commands']> as Store['commands'];
  plans: PlanStore = {
    list: async (tenantId, limit, after) => {
      const own = [...this.actors.rows.values()].filter((row) => row.ref.kind === 'plan' && row.tenantId === tenantId);
      return pageOf(own, ({ ref, context }) => ({ createdAt: Number(context.createdAt), id: ref.id }), limit, after);
    },
    open: async (tenantId) =>
      [...this.actors.rows.values()]
        .filter(({ ref, tenantId: of, context, quarantine }) => {
          return ref.kind === 'plan' && of === tenantId && context.finishedAt === null && quarantine === null;
        })
        .map(({ ref }) => ref.id),
    thought: async (limit, after, tenantId) => {
      const thought = [...this.actors.rows.values()].flatMap(({ ref, context, tenantId: of, quarantine }) => {
        const { cognition } = context as { cognition?: { phase: string } | null };
        const waits = ref.kind === 'plan' && quarantine === null && cognition != null && cognition.phase !== 'done';
        return waits && (tenantId ?? of) === of ? [{ createdAt: Number(context.createdAt), id: ref.id }] : [];
      });
      const page = oldestFirst(thought, limit, after);
      return { ...page, items: page.items.map(({ id }) => id) };
    },
  };
  proposals = new MemoryProposals((row) => this.keep(row));
  administration = memoryAdministration(this.actors, this.flags, (row) => this.keep(row));
  firmware = memoryFirmware((row) => this.keep(row));
  memories = agentMemory((row) => this.keep(row));
  audited: AuditRow[] = [];
  audit: AuditStore = {
    append: async (rows) => {
      this.check();
      this.audited.push(...rows);
    },
    list: async (tenantId, _filter, limit, after) =>
      pageOf(
        this.audited.filter((row) => row.tenantId === tenantId),
        ({ at, id }) => ({ createdAt: at, id }),
        limit,
        after,
      ),
  };
  inspection = {
    actor: async (tenantId, { kind, id }) => {
      const [row] = await this.actors.load(kind, [id]);
      return row?.tenantId === tenantId ? row : null;
    },
  } as Partial<InspectionStore> as InspectionStore;
  retention = { prune: async () => 0 };

  async ping(): Promise<void> {
    if (!this.reachable) throw new Error('unreachable');
  }
  async close(): Promise<void> {}
}
