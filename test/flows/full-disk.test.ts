import { chownSync, cpSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePgliteDeployment, makePostgresDeployment } from '../support/deployment.ts';
import { recordingLog } from '../support/lock-parts.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';
import { type SmallDisk, smallDisk } from '../support/small-disk.ts';
import { Workload } from '../support/workload.ts';

/** Moves the embedded database to the small disk. */
async function pgliteOn(disk: SmallDisk): Promise<Deployment> {
  const deployment = await makePgliteDeployment();
  const dataDir = join(disk.path, 'data');
  cpSync(deployment.env.DATA_DIR ?? '', dataDir, { recursive: true });
  return { ...deployment, env: { ...deployment.env, DATA_DIR: dataDir } };
}

/** Moves the tables to the small disk; the write-ahead log stays where it was. */
async function postgresOn(disk: SmallDisk): Promise<Deployment> {
  const deployment = (await makePostgresDeployment()) as Deployment;
  const admin = new pg.Client(`${inject('postgresUrl')}/postgres`);
  await admin.connect();
  const { rows } = await admin.query('show data_directory');
  const { uid, gid } = statSync(rows[0].data_directory);
  const folder = join(disk.path, 'tables');
  mkdirSync(folder);
  chownSync(folder, uid, gid);
  const name = `disk_${process.pid}`;
  const database = new URL(deployment.databaseUrl ?? '').pathname.slice(1);
  await admin.query(`create tablespace ${name} location '${folder}'`);
  await admin.query(`alter database ${database} set tablespace ${name}`);
  return {
    ...deployment,
    async remove() {
      await deployment.remove();
      await admin.query(`drop tablespace ${name}`);
      await admin.end();
    },
  };
}

const kinds = [
  { name: 'PGlite', megabytes: 96, make: pgliteOn },
  ...(inject('postgresUrl') === null ? [] : [{ name: 'PostgreSQL', megabytes: 32, make: postgresOn }]),
];
const probe = smallDisk(1);
probe?.remove();

describe.runIf(probe).each(kinds)('a full disk ($name)', ({ megabytes, make }) => {
  let disk: SmallDisk;
  let deployment: Deployment;
  let at: TestService;
  let owner: ApiClient & { homeId: string };
  let crowd: Workload;
  const { log, lines } = recordingLog();

  beforeAll(async () => {
    disk = smallDisk(megabytes) as SmallDisk;
    deployment = await make(disk);
    at = await startService(deployment.env, { log, limits: { mqtt: { closeJitterMs: 500 } } });
    owner = await at.owner();
    crowd = new Workload(owner);
    await Promise.all([crowd.addDevice(), crowd.addDevice({ critical: true })]);
  });
  afterAll(async () => {
    disk.free();
    await crowd?.close();
    await at?.stop();
    await deployment?.remove();
    disk.remove();
  });

  it('is reported to callers and in the log, and stored data can still be read', async () => {
    await crowd.waitForProgress();
    crowd.refused.clear();
    disk.fill();
    await eventually(() => crowd.refused.has('503 STORE_UNAVAILABLE'));
    const other = [...crowd.refused.keys()].filter((what) => !/^(503 STORE_UNAVAILABLE|still running)$/.test(what));
    expect(other).toEqual([]);
    const reported = 'database: no disk space, or another resource is missing';
    await eventually(() => lines.some(({ level, message }) => level === 'error' && message === reported));
    expect((await owner.get('/v1/homes')).status).toBe(200);
  });

  it('recovers when space is available again, and nothing is lost', async () => {
    disk.free();
    await crowd.waitForProgress();
    await crowd.verify();
    expect(at.fatal).toEqual([]);
  });
});
