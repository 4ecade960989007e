import type { Json, Uuid } from '../../../src/domain/values.ts';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type {
  ActorFilter,
  InspectionStore,
  ListedActor,
  ListedCommand,
} from '../../../src/store/contract/inspection.ts';
import type { TenantOverview } from '../../../src/store/contract/overview.ts';
import type { Page, Position } from '../../../src/store/contract.ts';
import { isDeleted, newestEntries, storedActor, timerRow } from './actors.ts';
import { actorsOf, positionOf } from './commands.ts';
import { type ActorRow, actorKey, type Tables } from './database.ts';
import { mapPage, newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

/** Maximum number of actors that one page of a filtered list examines. */
const MAX_SCANNED = 20_000;
const MAX_LISTED = 5;

const names: Readonly<Record<ActorKind, (row: ActorRow) => Json | undefined>> = {
  device: ({ context, columns }) => context.name ?? columns.device_type,
  command: ({ columns }) => columns.action,
  tenant: ({ columns }) => columns.name,
  plan: ({ context }) => context.name,
};

const nameOf = (row: ActorRow): string | null => (names[row.ref.kind](row) ?? null) as string | null;

const listed = (tables: Tables, row: ActorRow): ListedActor => ({
  ref: row.ref,
  name: nameOf(row),
  ...{ version: row.version, value: row.value, since: row.since },
  createdAt: positionOf(row).createdAt,
  quarantine: row.quarantine,
  command: row.ref.kind === 'command' ? listedCommand(tables, row) : null,
});

function listedCommand(tables: Tables, { tenantId, columns, context }: ActorRow): ListedCommand {
  const deviceId = columns.device_id as Uuid;
  const device = tables.actors.get(actorKey({ kind: 'device', id: deviceId }));
  const isListed = device !== undefined && device.tenantId === tenantId && !isDeleted(device);
  const { params = null, requestedBy = null } = context as unknown as Partial<ListedCommand>;
  return { deviceId, deviceName: isListed ? nameOf(device) : null, params, requestedBy };
}

/** A state is active if the value at its parent is its name, or has a member of its name. */
function isActive(value: Json, path: readonly string[]): boolean {
  let at: Json | undefined = value;
  for (const name of path.slice(0, -1)) {
    at = typeof at === 'object' && at !== null && !Array.isArray(at) ? at[name] : undefined;
  }
  const name = path.at(-1) ?? '';
  if (typeof at === 'string') return at === name;
  return Array.isArray(at) ? at.includes(name) : typeof at === 'object' && at !== null && name in at;
}

/** Conditions implied by a state: only rows that meet them are examined. */
const implied: Partial<Record<ActorKind, Readonly<Record<string, (row: ActorRow) => boolean>>>> = {
  device: {
    'link.online': ({ columns }) => columns.online === true,
    'administration.revoked': ({ columns }) => columns.revoked === true,
  },
  command: { 'lifecycle.awaiting_confirmation': ({ columns }) => columns.status === 'awaiting_confirmation' },
};

function isExamined(row: ActorRow, { states = [], quarantined }: ActorFilter): boolean {
  if (isDeleted(row) || (quarantined !== undefined && quarantined !== (row.quarantine !== null))) return false;
  return states.every(([only, ...others]) => {
    const matches = others.length === 0 && only !== undefined ? implied[row.ref.kind]?.[only.join('.')] : undefined;
    return matches === undefined || matches(row);
  });
}

function actors(
  tables: Tables,
  tenantId: Uuid,
  kind: ActorKind,
  filter: ActorFilter,
  limit: number,
  after?: Position,
): Page<ListedActor> {
  const rows = actorsOf(tables, kind, (row) => row.tenantId === tenantId && isExamined(row, filter));
  if (filter.states === undefined)
    return mapPage(newestFirst(rows, positionOf, limit, after), (row) => listed(tables, row));
  const seen = newestFirst(rows, positionOf, MAX_SCANNED, after).items;
  const matching = seen.filter(({ value }) =>
    filter.states?.every((group) => group.some((path) => isActive(value, path))),
  );
  const page = newestFirst(matching, positionOf, limit);
  const edge = seen.length === MAX_SCANNED ? seen.at(-1) : undefined;
  const next = page.next ?? (edge === undefined ? null : positionOf(edge));
  const count = after === undefined && next === null ? page.items.length : null;
  return { ...mapPage(page, (row) => listed(tables, row)), next, count: async () => count };
}

const isPreview = ({ columns, context }: ActorRow): boolean =>
  columns.status === 'awaiting_confirmation' &&
  (context.confirmation as { asked?: boolean } | null | undefined)?.asked === true;

function overview(tables: Tables, tenantId: Uuid, since: number): TenantOverview {
  const isCounted = (row: ActorRow) => row.tenantId === tenantId && !isDeleted(row) && row.columns.revoked !== true;
  const devices = actorsOf(tables, 'device', isCounted);
  const isRecent = (row: ActorRow) => row.tenantId === tenantId && positionOf(row).createdAt >= since;
  const isSeen = (row: ActorRow) => isRecent(row) && !isPreview(row);
  const seen = newestFirst(actorsOf(tables, 'command', isSeen), positionOf, MAX_SCANNED).items;
  const commands: Record<string, number> = {};
  const failures = new Map<Uuid, number>();
  for (const { columns } of seen) {
    const { status, device_id: deviceId } = columns as { status: string; device_id: Uuid };
    commands[status] = (commands[status] ?? 0) + 1;
    if (status === 'failed' || status === 'timed_out') failures.set(deviceId, (failures.get(deviceId) ?? 0) + 1);
  }
  const failing = [...failures]
    .sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    .slice(0, MAX_LISTED)
    .flatMap(([deviceId, count]) => {
      const device = tables.actors.get(actorKey({ kind: 'device', id: deviceId }));
      return device === undefined || isDeleted(device) ? [] : [{ deviceId, name: nameOf(device), failures: count }];
    });
  const failedRollbacks = actorsOf(tables, 'plan', (row) => isRecent(row) && row.columns.status === 'rollback_failed');
  return {
    devices: { total: devices.length, online: devices.filter(({ columns }) => columns.online === true).length },
    commands,
    failing,
    rollbacksFailed: newestFirst(failedRollbacks, positionOf, MAX_LISTED).items.map((row) => ({
      ...{ id: row.ref.id, name: nameOf(row), since: row.since },
    })),
  };
}

export const inspectionStore = (session: Session): InspectionStore => ({
  actors: (tenantId, kind, filter, limit, after) =>
    session.read('inspection.actors', [tenantId, kind, filter, limit, after], actors),

  names: (tenantId, kind, ids) =>
    session.read('inspection.names', [tenantId, kind, ids], (tables, tenantId, kind, ids) => {
      const rows = ids.flatMap((id) => tables.actors.get(actorKey({ kind, id })) ?? []);
      const own = rows.filter((row) => row.tenantId === tenantId);
      return new Map(
        own.flatMap((row) => (nameOf(row) === null ? [] : [[row.ref.id, nameOf(row) as string] as const])),
      );
    }),

  actor: (tenantId, ref) =>
    session.read('inspection.actor', [tenantId, ref], (tables, tenantId, ref) => {
      const row = tables.actors.get(actorKey(ref));
      return row === undefined || row.tenantId !== tenantId || isDeleted(row) ? null : storedActor(row);
    }),

  overview: (tenantId, since) => session.read('inspection.overview', [tenantId, since], overview),

  timers: (ref) =>
    session.read('inspection.timers', [ref], (tables, ref) =>
      tables.timers
        .where((timer) => actorKey(timer.ref) === actorKey(ref))
        .sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1))
        .map(timerRow),
    ),

  journal: (tenantId, ref, limit, before) =>
    session.read('inspection.journal', [tenantId, ref, limit, before], (tables, tenantId, ref, limit, before) => {
      const entries = (tables.journal.get(actorKey(ref)) ?? []).filter((entry) => entry.tenantId === tenantId);
      return newestEntries(entries, limit, before);
    }),
});
