import { createHash, hash } from 'node:crypto';
import type { JsonObject, Uuid } from '../../domain/values.ts';
import { DROPPED_ANSWER, type IdempotencyRow, type IdempotencyStore } from '../contract.ts';
import type { Database } from './database.ts';
import { IDEMPOTENCY_CONFLICT } from './faults.ts';
import type { TenantScope } from './tenant-query.ts';

type Key = Pick<IdempotencyRow, 'principal' | 'method' | 'path' | 'key'>;

/** Primary key of a row: the four parts together can be longer than an index allows. */
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
  replaces: row.replaces === undefined ? null : hash('sha256', row.replaces),
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
  state text, status integer, answer text, subject text, expires_at bigint, replaces text`;

/**
 * SQL that inserts the rows of `from`, which names them `r`. It replaces a row of the same key only if it is the one
 * that the request found (encrypted responses are unique); any other row fails the whole statement. Concurrent
 * statements wait for each other.
 */
export const putIdempotency = (from: string, where = 'true'): string =>
  `insert into idempotency as k (digest, ${columns.join(', ')})
   select r.digest, ${columns.map((name) => `r.${name}`).join(', ')} ${from} where ${where}
   on conflict (digest) do update set ${columns.map((name) => `${name} = ${replacement(name, from)}`).join(', ')}`;

const replacement = (name: string, from: string): string =>
  name !== 'state'
    ? `excluded.${name}`
    : `case when exists (
        select ${from} where r.digest = k.digest and r.replaces = encode(sha256(convert_to(k.answer, 'UTF8')), 'hex')
      ) then excluded.state else refuse('${IDEMPOTENCY_CONFLICT}') end`;

/** CTE for a statement that writes a plain record: inserts the row in parameter `$n`, or nothing if it is null. */
export const idempotencyCte = (n: number, provided: string): string =>
  `also_put as (${putIdempotency(
    `from jsonb_to_recordset($${n}::jsonb) as r(${idempotencyFields})`,
    `exists (select from ${provided})`,
  )})`;

/** The parameter for `idempotencyCte`. */
export const idempotencyParameter = (row: IdempotencyRow | null | undefined): string | null =>
  row ? JSON.stringify([idempotencyInput(row)]) : null;

/** Scope of a statement of a tenant with `idempotencyCte`. */
export const idempotentScope = (tenantId: Uuid, row: IdempotencyRow | null | undefined): TenantScope => ({
  tenantId,
  idempotencyKey: row ? digestOf(row) : null,
});

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
      values: [idempotencyParameter(row)],
    });
  },

  async dropFor(subject) {
    await database.write({
      name: 'idempotency_drop',
      text: `update idempotency set answer = '${DROPPED_ANSWER}' where subject = $1`,
      values: [subject],
    });
  },
});
