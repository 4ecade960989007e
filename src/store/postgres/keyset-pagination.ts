import { MAX_COUNTED } from '../contract/page.ts';
import type { Page, Position } from '../contract.ts';
import type { Database, SqlValue, Statement } from './database.ts';

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The two parameters of `(created_at, id) < ($n, $m)`, for lists that are newest first. */
export const descendingStart = (after: Position | undefined): [createdAt: number, id: string] =>
  after ? [after.createdAt, after.id] : [Number.MAX_SAFE_INTEGER, LAST_ID];

/** The two parameters of `(created_at, id) > ($n, $m)`, for lists that are oldest first. */
export const ascendingStart = (after: Position | undefined): [createdAt: number, id: string] =>
  after ? [after.createdAt, after.id] : [0, FIRST_ID];

/** Of `limit + 1` rows, the last only shows that there is a next page. Without a count. */
export function pageOf<T>(rows: readonly T[], limit: number, position: (row: T) => Position): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return {
    items,
    next: rows.length > limit && last ? position(last) : null,
    positions: () => items.map(position),
    count: async () => null,
  };
}

/** A list that is newest first: `text` has the start of the page and the number of rows among its parameters. */
export interface ListStatement extends Pick<Statement, 'text' | 'scope'> {
  name: string;
  /** `after` is missing for the first page. */
  values(after: Position | undefined, rows: number): readonly SqlValue[];
}

interface PageRequest<Row, T> {
  after: Position | undefined;
  limit: number;
  /** The entry that a row contains. */
  of(row: Row): T;
  position(entry: NoInfer<T>): Position;
}

/**
 * Reads a page. It counts without a statement if it is the only one, and otherwise reads the list's index from its start,
 * `MAX_COUNTED + 1` entries at most.
 */
export async function readPage<Row extends object, T>(
  database: Database,
  { name, text, scope, values }: ListStatement,
  { after, limit, of, position }: PageRequest<Row, T>,
): Promise<Page<T>> {
  const scoped = { ...(scope !== undefined && { scope }) };
  const rows = await database.read<Row>({ ...scoped, name, text, values: values(after, limit + 1) });
  const page = pageOf(rows.map(of), limit, position);
  return {
    ...page,
    async count() {
      if (after === undefined && page.next === null) return page.items.length;
      const [found] = await database.read<{ n: number }>({
        ...{ ...scoped, name: `${name}_count`, text: `select count(*) as n from (${text}) counted` },
        values: values(undefined, MAX_COUNTED + 1),
      });
      const n = found?.n ?? 0;
      return n > MAX_COUNTED ? null : n;
    },
  };
}
