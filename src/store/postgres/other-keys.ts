import pg from 'pg';
import type { EpochMs } from '../../domain/values.ts';
import type { SealedCount } from '../contract/sealed-values.ts';
import { type Query, typeParsers } from './database.ts';
import { valuesWithOtherKeys } from './sealed-values.ts';
import { sessionConfig } from './session-config.ts';

const CONNECT_MS = 3_000;
/** For a server that has stopped responding; a large table may take long. */
const QUERY_MS = 600_000;

const databaseNow = 'select (extract(epoch from clock_timestamp()) * 1000)::bigint as now';

/**
 * `SealedValueStore.withOtherKeys` on a separate connection, for a process that does not hold the active lock. Changes
 * nothing. `now`: null for the database's clock. Throws if the server does not answer, or when `signal` aborts.
 */
export async function readValuesWithOtherKeys(
  url: string,
  known: readonly string[],
  { now, signal }: { now: EpochMs | null; signal: AbortSignal },
): Promise<SealedCount[]> {
  const client = new pg.Client(
    sessionConfig(url, {
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: QUERY_MS,
      keepAlive: true,
      application_name: 'twinkeep keys',
      types: typeParsers,
    }),
  );
  client.on('error', () => {}); // Reported by the running query.
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const query: Query = async <Row extends object>(text: string, values?: Parameters<Query>[1]) =>
    (await client.query<Row>(text, values && [...values])).rows;
  const read = async (): Promise<SealedCount[]> => {
    await client.connect();
    await query('begin read only');
    const at = now ?? (await query<{ now: number }>(databaseNow))[0]?.now ?? 0;
    return valuesWithOtherKeys(query, known, at);
  };
  try {
    signal.throwIfAborted();
    return await Promise.race([read(), aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    // Not awaited: a connection that is being opened may take its whole time limit.
    void client.end().catch(() => {});
  }
}
