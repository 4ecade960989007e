import pg from 'pg';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { CommitUnknown, StoreUnavailable } from '../../../src/store/contract.ts';
import { PooledDatabase } from '../../../src/store/postgres/database.ts';
import { ServerSessions } from '../../../src/store/postgres/server-sessions.ts';
import { eventually } from '../../support/clock.ts';
import { type PostgresServer, startPostgres } from '../../support/postgres-server.ts';
import { slow } from '../../support/slow.ts';
import { sql } from '../../support/write-oracle.ts';

const QUERY_TIMEOUT_MS = 1_500;

describe.runIf(inject('postgresUrl'))(
  'a commit that waits for a synchronous standby when its connection is lost',
  () => {
    let server: PostgresServer;
    let url: string;
    let database: PooledDatabase;
    beforeEach(async () => {
      server = (await startPostgres()) as PostgresServer;
      url = `${server.url}/postgres`;
      // A role without privileges of the server, as a deployment has.
      await sql(url, 'create table kept (n integer); create role plain login; grant all on kept to plain');
      const sessions = new ServerSessions();
      const connectionString = url.replace('postgres@', 'plain@');
      const config = { connectionString, query_timeout: QUERY_TIMEOUT_MS, onConnect: sessions.onConnect };
      database = new PooledDatabase(new pg.Pool(config), { sessions });
    });
    afterEach(async () => {
      await database.close();
      await server.stop();
    });

    const setStandbys = async (names: string): Promise<void> => {
      await sql(url, `alter system set synchronous_standby_names = '${names}'`);
      await sql(url, 'select pg_reload_conf()');
      await eventually(async () => {
        const [row] = await sql<{ names: string }>(url, `select current_setting('synchronous_standby_names') as names`);
        return row?.names === names;
      });
    };
    const read = () => database.read({ text: 'select n from kept', noRetry: true });

    it('is not read while it is on this server alone', slow, async () => {
      await read();
      await setStandbys('*');
      await expect(database.write({ text: 'insert into kept values (1)' })).rejects.toThrow(CommitUnknown);
      await expect(read()).rejects.toThrow(StoreUnavailable);
      // Its session was terminated, which has made the commit visible on this server.
      await eventually(async () => expect(await sql(url, 'select n from kept')).toEqual([{ n: 1 }]));
      const sessions = async () => (await sql(url, `select from pg_stat_activity where usename = 'plain'`)).length;
      const before = await sessions();
      for (let n = 0; n < 3; n += 1) await expect(read()).rejects.toThrow(StoreUnavailable);
      // The sessions of these attempts, which wait for a standby, do not accumulate.
      expect(await sessions()).toBeLessThanOrEqual(before + 1);
      await setStandbys('');
      await eventually(async () => expect(await read()).toEqual([{ n: 1 }]));
    });
  },
);
