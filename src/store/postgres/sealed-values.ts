import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { SealedCount, SealedKind, SealedPrefix, SealedValueStore } from '../contract/sealed-values.ts';
import { DROPPED_ANSWER } from '../contract.ts';
import type { Database, Query } from './database.ts';

/** Stored answers that are examined at the start, at both ends of the order in which they expire. */
const EXAMINED_ANSWERS = 1_000;

/** Before the first id of the table. */
const NIL: Uuid = '00000000-0000-0000-0000-000000000000';

/** The part of a sealed value that names the master key. */
const keyIdIn = (column: string): string => `substr(${column}, 4, 11)`;

/**
 * Locked rows are skipped, so that this statement never waits for one while it holds others: group commits lock several
 * of these rows in another order. `key` has the columns of the primary key with their types.
 */
function replaceStatement(table: string, column: string, key: Readonly<Record<string, string>>): string {
  const names = Object.keys(key);
  const fields = Object.entries(key).map(([name, type]) => `${name} ${type}`);
  const sameKey = (one: string, other: string) =>
    names.map((name) => `${one}.${name} = ${other}.${name}`).join(' and ');
  return `with changed as (
      select ${names.map((name) => `t.${name}`).join(', ')}, r."to"
        from jsonb_to_recordset($1::jsonb) as r(${fields.join(', ')}, "from" text, "to" text)
        join ${table} t on ${sameKey('t', 'r')}
        where t.${column} = r."from" for update of t skip locked)
    update ${table} t set ${column} = c."to" from changed c where ${sameKey('t', 'c')} returning 1 as one`;
}

interface SecretRow {
  device_id: Uuid;
  key_version: number;
  sealed_secret: string | null;
  expires_at: EpochMs | null;
}

interface AnswerRow {
  digest: string;
  principal: string;
  method: string;
  path: string;
  key: string;
  answer: string;
  expires_at: EpochMs;
}

export const sealedValueStore = (database: Database): SealedValueStore => ({
  count: () =>
    database.transaction(async (query) => {
      await query('set local statement_timeout = 0');
      const [row] = await query<{ rows: number }>(
        'select (select count(*) from device_keys) + (select count(*) from idempotency) as rows',
      );
      return row?.rows ?? 0;
    }),

  async deviceSecrets(after, limit) {
    const rows = await database.read<SecretRow>({
      name: 'sealed_secrets',
      text: `select device_id, key_version, sealed_secret, least(ended_at, grace_until) as expires_at from device_keys
        where (device_id, key_version) > ($1::uuid, $2::integer) order by device_id, key_version limit $3`,
      values: [after?.deviceId ?? NIL, after?.keyVersion ?? 0, limit],
    });
    return rows.map((row) => ({
      ...{ deviceId: row.device_id, keyVersion: row.key_version },
      ...{ sealed: row.sealed_secret, expiresAt: row.expires_at },
    }));
  },

  // The lengths are read without the values, which are in a separate table if they are long.
  async answers(after, { rows: limit, bytes }) {
    const rows = await database.read<AnswerRow>({
      name: 'sealed_answers',
      text: `select digest, principal, method, path, key, answer, expires_at from (
          select p.digest, p.principal, p.method, p.path, p.key, p.answer, p.expires_at,
              row_number() over w as place, sum(octet_length(answer)) over w as bytes from (
            select digest, principal, method, path, key, answer, expires_at from idempotency
              where digest > $1 order by digest limit $2) p
          window w as (order by digest)) sized
        where bytes <= $3 or place = 1 order by digest`,
      values: [after ?? '', limit, bytes],
    });
    return rows.map(({ answer, expires_at: expiresAt, ...row }) => {
      return { ...row, expiresAt, sealed: answer === DROPPED_ANSWER ? null : answer };
    });
  },

  async replaceSecrets(changes) {
    const rows = changes.map(({ deviceId, keyVersion, ...values }) => {
      return { device_id: deviceId, key_version: keyVersion, ...values };
    });
    return replace(database, replaceSecrets, rows);
  },

  replaceAnswers: (changes) => replace(database, replaceAnswers, changes),

  parameters: () =>
    database.transaction(async (query) => {
      await query('set local statement_timeout = 0');
      return query<SealedPrefix>(sealedParameters);
    }),

  withOtherKeys: (known, now) => database.transaction((query) => valuesWithOtherKeys(query, known, now)),
});

/** A command that waits has a timer. Rows of earlier builds have no live part, and no sealed parameters. */
const sealedParameters = `select substr(sealed, 1, 14) as prefix, count(*) as rows from (
    select c.live->>'sealedParams' as sealed from (select distinct id from timers where kind = 'command') t
      join lateral (select live from commands c where c.id = t.id offset 0) c on true
    union all
    select given.sealed from plans p, json_array_elements(p.live->'steps') step,
      lateral (values (step->>'sealedParams'), (step->>'sealedCompensation')) given(sealed) where not p.over) found
  where sealed is not null group by 1 order by 1`;

/** Builds before migration 18 had no such parameters. */
const parametersExist = `select count(*) = 2 as exist from pg_attribute
  where attrelid in (to_regclass('commands'), to_regclass('plans')) and attname = 'live' and not attisdropped`;

const tablesExist = `select to_regclass('device_keys') is not null and to_regclass('idempotency') is not null as exist`;

/** See `SealedValueStore.withOtherKeys`. Changes settings of the transaction in which `query` runs. */
export async function valuesWithOtherKeys(
  query: Query,
  known: readonly string[],
  now: EpochMs,
): Promise<SealedCount[]> {
  const [tables] = await query<{ exist: boolean }>(tablesExist);
  if (!tables?.exist) return [];
  await query('set local statement_timeout = 0');
  // Reads the whole table, in the order of its pages.
  await query('set local enable_seqscan = on');
  const ids = `{${known.join(',')}}`;
  const secrets = await query<{ id: string; rows: number }>(
    `select ${keyIdIn('sealed_secret')} as id, count(*) as rows from device_keys
      where sealed_secret is not null and ended_at is null and (grace_until is null or grace_until > $2)
        and ${keyIdIn('sealed_secret')} <> all($1::text[]) group by 1`,
    [ids, now],
  );
  await query('set local enable_seqscan = off');
  const answers = await query<{ id: string; rows: number }>(
    `select ${keyIdIn('answer')} as id, count(*) as rows from (
        (select digest, answer from idempotency where expires_at > $2 order by expires_at limit ${EXAMINED_ANSWERS})
        union
        (select digest, answer from idempotency where expires_at > $2 order by expires_at desc
          limit ${EXAMINED_ANSWERS})) examined
      where answer <> '${DROPPED_ANSWER}' and ${keyIdIn('answer')} <> all($1::text[]) group by 1`,
    [ids, now],
  );
  await query('set local enable_seqscan = on');
  const [columns] = await query<{ exist: boolean }>(parametersExist);
  const parameters = columns?.exist ? await query<SealedPrefix>(sealedParameters) : [];
  return [
    ...countsOf('device_secrets', secrets),
    ...countsOf('stored_answers', answers),
    ...othersAmong(parameters, known),
  ];
}

/** Those of other keys than `known`, by key. */
function othersAmong(parameters: readonly SealedPrefix[], known: readonly string[]): SealedCount[] {
  const counts = new Map<string, number>();
  for (const { prefix, rows } of parameters) {
    const id = prefix.slice(3);
    if (!known.includes(id)) counts.set(id, (counts.get(id) ?? 0) + rows);
  }
  return [...counts].map(([keyId, rows]) => ({ kind: 'command_parameters', keyId, rows }));
}

const replaceSecrets = {
  name: 'sealed_secrets_replace',
  text: replaceStatement('device_keys', 'sealed_secret', { device_id: 'uuid', key_version: 'integer' }),
};

const replaceAnswers = {
  name: 'sealed_answers_replace',
  text: replaceStatement('idempotency', 'answer', { digest: 'text' }),
};

async function replace(
  database: Database,
  statement: { name: string; text: string },
  rows: readonly object[],
): Promise<number> {
  if (rows.length === 0) return 0;
  return (await database.write({ ...statement, values: [JSON.stringify(rows)] })).length;
}

const countsOf = (kind: SealedKind, rows: readonly { id: string; rows: number }[]): SealedCount[] =>
  rows.map(({ id, rows: count }) => ({ kind, keyId: id, rows: count }));
