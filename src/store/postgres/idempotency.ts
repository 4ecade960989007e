import { createHash } from 'node:crypto';
import type { JsonObject } from '../../domain/values.ts';
import type { IdempotencyRow, IdempotencyStore } from '../contract.ts';
import type { Database } from './database.ts';

type Key = Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key'>;

/** A row's name in its table: the four parts together can be longer than an index takes. */
const digestOf = ({ principal, method, path, key }: Key): string =>
  createHash('sha256')
    .update(JSON.stringify([principal, method, path, key]))
    .digest('base64url');

/** The row as the statements read it from JSON. */
export const idempotencyInput = (row: IdempotencyRow): JsonObject => ({
  digest: digestOf(row),
  principal: row.principal,
  method: row.method,
  path: row.path,
  key: row.key,
  body_hash: row.bodyHash,
  state: row.state,
  status: row.status,
  answer: row.answer,
  subject: row.subject,
  expires_at: row.expiresAt,
});

const columns = [
  'principal',
  'method',
  'path',
  'key',
  'body_hash',
  'state',
  'status',
  'answer',
  'subject',
  'expires_at',
];

export const idempotencyFields = `digest text, principal text, method text, path text, key text, body_hash text,
  state text, status integer, answer text, subject text, expires_at bigint`;

/** Keeps the rows of `source`, which names them `r`; an older one of the same key is replaced. */
export const putIdempotency = (source: string): string =>
  `insert into idempotency (digest, ${columns.join(', ')})
   select distinct on (r.digest) r.digest, ${columns.map((name) => `r.${name}`).join(', ')} ${source}
   on conflict (digest) do update set ${columns.map((name) => `${name} = excluded.${name}`).join(', ')}`;

/** A section for a statement that keeps a plain record: the row in parameter `$n`, or nothing where it is null. */
export const alsoPut = (n: number, provided: string): string =>
  `also_put as (${putIdempotency(
    `from jsonb_to_recordset($${n}::jsonb) as r(${idempotencyFields}) where exists (select from ${provided})`,
  )})`;

/** The parameter of `alsoPut`. */
export const alsoValue = (row: IdempotencyRow | null | undefined): string | null =>
  row ? JSON.stringify([idempotencyInput(row)]) : null;

interface Row {
  principal: string;
  method: string;
  path: string;
  key: string;
  body_hash: string;
  state: 'running' | 'done';
  status: number;
  answer: string;
  subject: string | null;
  expires_at: number;
}

export const idempotencyStore = (database: Database): IdempotencyStore => ({
  async find(key) {
    const [row] = await database.read<Row>({
      name: 'idempotency_find',
      text: `select ${columns.join(', ')} from idempotency where digest = $1`,
      values: [digestOf(key)],
    });
    if (!row) return null;
    const { body_hash: bodyHash, expires_at: expiresAt, ...rest } = row;
    return { ...rest, bodyHash, expiresAt };
  },

  async put(row) {
    await database.write({
      name: 'idempotency_put',
      text: putIdempotency(`from jsonb_to_recordset($1::jsonb) as r(${idempotencyFields})`),
      values: [alsoValue(row)],
    });
  },

  async dropFor(subject) {
    await database.write({
      name: 'idempotency_drop',
      text: 'delete from idempotency where subject = $1',
      values: [subject],
    });
  },
});
