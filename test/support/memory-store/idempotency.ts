import { createHash } from 'node:crypto';
import {
  DROPPED_ANSWER,
  IdempotencyConflict,
  type IdempotencyRow,
  type IdempotencyStore,
} from '../../../src/store/contract.ts';
import { bigint, type Columns, indexedText, integer, nullable, rowOf, text } from './columns.ts';
import type { Tables } from './database.ts';
import type { Session } from './session.ts';

type Key = Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key'>;
/** The row that is committed with a write, if there is one. */
export type OptionalIdempotencyRow = IdempotencyRow | null | undefined;

type Stored = Omit<IdempotencyRow, 'replaces'>;

const columns: Columns<Stored> = {
  ...{ principal: text, method: text, path: text, key: text, bodyHash: text, state: text, status: integer },
  ...{ answer: text, subject: nullable(indexedText), expiresAt: bigint },
};

export const idempotencyKey = ({ principal, method, path, key }: Key): string =>
  JSON.stringify([principal, method, path, key]);

/** The order of rows in the database. */
export const idempotencyDigest = ({ principal, method, path, key }: Key): string =>
  createHash('sha256')
    .update(JSON.stringify([principal, method, path, key]))
    .digest('base64url');

/** Throws if the key has another row than the one that the request found. */
export function putIdempotency(tables: Tables, row: OptionalIdempotencyRow): void {
  if (!row) return;
  const found = tables.idempotency.get(idempotencyKey(row));
  if (found && found.answer !== row.replaces)
    throw new IdempotencyConflict('23505', 'another attempt stored a response for the idempotency key');
  tables.idempotency.set(idempotencyKey(row), rowOf<Stored>(columns, row));
}

export function dropIdempotency(tables: Tables, subject: string): void {
  for (const row of tables.idempotency.where((one) => one.subject === subject)) {
    tables.idempotency.set(idempotencyKey(row), { ...row, answer: DROPPED_ANSWER });
  }
}

export const idempotencyStore = (session: Session): IdempotencyStore => ({
  find: (key) =>
    session.read('idempotency.find', [key], (tables, key) => tables.idempotency.get(idempotencyKey(key)) ?? null),
  put: (row) => session.write('idempotency.put', [row], putIdempotency),
  dropFor: (subject) => session.write('idempotency.dropFor', [subject], dropIdempotency),
});
