import pg from 'pg';
import type { ClockSample } from '../../domain/database-time.ts';
import { sessionConfig } from './session-config.ts';

const CONNECT_MS = 3_000;

/** Reads the database's clock on a separate connection; null if the server does not answer. */
export async function readDatabaseClock(url: string): Promise<ClockSample | null> {
  const client = new pg.Client(
    sessionConfig(url, {
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: CONNECT_MS,
      application_name: 'twinkeep clock',
    }),
  );
  client.on('error', () => {}); // Reported by the running query.
  try {
    await client.connect();
    const sentAt = performance.now();
    const { rows } = await client.query<{ now: number }>(
      'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now',
    );
    return { sentAt, receivedAt: performance.now(), databaseNow: Number(rows[0]?.now) };
  } catch {
    return null;
  } finally {
    await client.end().catch(() => {});
  }
}
