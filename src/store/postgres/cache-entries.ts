import type { Database } from './database.ts';

/**
 * Entries in the table `cache_entries`. Each operation is one statement, so concurrent calls of all processes are atomic.
 * Expiry is by the database's clock. Throws the faults of the database.
 */
export interface CacheEntries {
  /** Null if the key is free or its entry has expired. */
  get(key: string): Promise<string | null>;
  /** `ttlMs`: time to live in milliseconds. */
  set(key: string, value: string, ttlMs: number): Promise<void>;
  /** False if the key has an entry that has not expired. */
  add(key: string, value: string, ttlMs: number): Promise<boolean>;
  /** Deletes the entry and returns its value. Of concurrent calls, one gets it. */
  take(key: string): Promise<string | null>;
  delete(key: string): Promise<void>;
  /** Deletes up to `limit` expired entries; returns their number. Entries that another process deletes are skipped. */
  prune(limit: number): Promise<number>;
}

const EXPIRY = "clock_timestamp() + $3::float8 * interval '1 millisecond'";
const REPLACE = 'value = excluded.value, expires_at = excluded.expires_at';

export const cacheEntries = (database: Database): CacheEntries => ({
  async get(key) {
    const [row] = await database.read<{ value: string }>({
      name: 'cache_get',
      text: 'select value from cache_entries where key = $1 and expires_at > clock_timestamp()',
      values: [key],
    });
    return row?.value ?? null;
  },

  async set(key, value, ttlMs) {
    await database.write({
      name: 'cache_set',
      text: `insert into cache_entries (key, value, expires_at) values ($1, $2, ${EXPIRY})
        on conflict (key) do update set ${REPLACE}`,
      values: [key, value, ttlMs],
    });
  },

  async add(key, value, ttlMs) {
    const rows = await database.write({
      name: 'cache_add',
      text: `insert into cache_entries as e (key, value, expires_at) values ($1, $2, ${EXPIRY})
        on conflict (key) do update set ${REPLACE} where e.expires_at <= clock_timestamp() returning 1 as added`,
      values: [key, value, ttlMs],
    });
    return rows.length > 0;
  },

  async take(key) {
    const [row] = await database.write<{ value: string | null }>({
      name: 'cache_take',
      text: `delete from cache_entries where key = $1
        returning case when expires_at > clock_timestamp() then value end as value`,
      values: [key],
    });
    return row?.value ?? null;
  },

  async delete(key) {
    await database.write({ name: 'cache_delete', text: 'delete from cache_entries where key = $1', values: [key] });
  },

  async prune(limit) {
    // clock_timestamp() is volatile and would not use the index.
    const rows = await database.write({
      name: 'cache_prune',
      text: `delete from cache_entries where key in (
          select key from cache_entries where expires_at <= statement_timestamp()
          order by expires_at limit $1 for update skip locked) returning 1 as gone`,
      values: [limit],
    });
    return rows.length;
  },
});
