import type { EpochMs, Uuid } from '../../../src/domain/values.ts';
import type { AuditEntry, AuditFilter, AuditRow, AuditStore } from '../../../src/store/contract/audit.ts';
import type { Page, Position } from '../../../src/store/contract.ts';
import { nextAuditPosition } from './audit-chain.ts';
import { bigint, type Columns, integer, nullable, rowOf, text, uuid } from './columns.ts';
import type { JournalRow, Tables } from './database.ts';
import type { Session } from './session.ts';

/** Maximum number of entries of each source that one filtered page examines. */
const MAX_SCANNED = 10_000;
const NIL = '00000000-0000-0000-0000-000000000000';
const LAST = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

const columns: Columns<AuditRow> = {
  ...{ id: uuid, tenantId: nullable(uuid), at: bigint, by: uuid, key: nullable(text), via: text, action: text },
  ...{ subject: text, outcome: text, requestId: uuid, address: nullable(text), client: nullable(text), count: integer },
};

/** An entry with its cursor: an actor has several entries with one id, distinguished by their versions. */
interface PositionedEntry {
  at: EpochMs;
  id: Uuid;
  n: number;
  entry: AuditEntry;
}
type EntryPosition = Omit<PositionedEntry, 'entry'>;

const compare = (a: EntryPosition, b: EntryPosition): number =>
  a.at - b.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : a.n - b.n);

const newestOf = (entries: PositionedEntry[], limit: number): PositionedEntry[] =>
  entries.sort((a, b) => compare(b, a)).slice(0, limit);

/** A user's transition of an actor, from its journal. */
function fromJournal(actor: string, { at, by, event, data, version }: JournalRow): PositionedEntry {
  const outcome = event === 'request' ? ((data?.code ?? 'done') as string) : 'done';
  const [kind = '', id = ''] = actor.split(':');
  const entry = {
    ...{ at, by: by.id, key: by.key ?? null, via: by.via ?? null, action: by.operation ?? `${kind}.${event}` },
    ...{ subject: actor, outcome, requestId: by.requestId ?? null, address: null, client: null, count: 1 },
  };
  return { at, id, n: version, entry };
}

function journalEntries(tables: Tables, tenantId: Uuid | null, subject: string | undefined): PositionedEntry[] {
  const entries: PositionedEntry[] = [];
  for (const [actor, rows] of tables.journal) {
    if (subject !== undefined && subject !== actor) continue;
    for (const row of rows) {
      if (row.tenantId === tenantId && row.by.kind === 'user') entries.push(fromJournal(actor, row));
    }
  }
  return entries;
}

const rowEntries = (tables: Tables, tenantId: Uuid | null, subject: string | undefined): PositionedEntry[] =>
  tables.audit
    .where((row) => row.tenantId === tenantId && (subject === undefined || row.subject === subject))
    .map(({ id, tenantId: _, position: __, ...entry }) => ({ at: entry.at, id, n: 0, entry }));

/** The list starts before the end of the range and after the last entry of the previous page. */
function startPosition({ to }: AuditFilter, after: Position | undefined): EntryPosition {
  const end = to === undefined ? { at: Number.MAX_SAFE_INTEGER, id: LAST, n: 0 } : { at: to, id: NIL, n: 0 };
  if (after === undefined) return end;
  const [id = NIL, n = '0'] = after.id.split('.');
  const start = { at: after.createdAt, id, n: Number(n) };
  return compare(start, end) > 0 ? end : start;
}

function list(
  tables: Tables,
  tenantId: Uuid | null,
  filter: AuditFilter,
  limit: number,
  after?: Position,
): Page<AuditEntry> {
  const { by, action, subject, from = 0 } = filter;
  const start = startPosition(filter, after);
  const most = by !== undefined || action !== undefined ? MAX_SCANNED : limit + 1;
  const scanned = [journalEntries, rowEntries].map((source) => {
    const entries = source(tables, tenantId, subject).filter((one) => compare(one, start) < 0 && one.at >= from);
    return newestOf(entries, most);
  });
  const edges = scanned.filter((entries) => entries.length === most).flatMap((entries) => entries.at(-1) ?? []);
  const [edge] = newestOf(edges, 1);
  const fitting = newestOf(
    scanned
      .flat()
      .filter(
        ({ entry }) => (by === undefined || entry.by === by) && (action === undefined || entry.action === action),
      ),
    limit + 1,
  );
  // Entries older than the edge wait for the next page: one source was not examined beyond it.
  const known = edge === undefined ? fitting : fitting.filter((one) => compare(one, edge) >= 0);
  const page = known.slice(0, limit);
  const positions = page.map(positionOf);
  const next = known.length > limit ? (positions.at(-1) ?? null) : edge === undefined ? null : positionOf(edge);
  const count = after === undefined && next === null ? page.length : null;
  return { items: page.map(({ entry }) => entry), next, positions: () => positions, count: async () => count };
}

const positionOf = ({ at, id, n }: EntryPosition): Position => ({ createdAt: at, id: `${id}.${n}` });

export const auditStore = (session: Session): AuditStore => ({
  append: (rows) =>
    session.write('audit.append', [rows], (tables, rows) => {
      for (const input of rows) {
        const row = rowOf(columns, { ...input, via: input.via ?? '' });
        if (!tables.audit.has(row.id)) tables.audit.set(row.id, { ...row, position: nextAuditPosition(tables) });
      }
    }),
  list: (tenantId, filter, limit, after) => session.read('audit.list', [tenantId, filter, limit, after], list),
});
