import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts';
import { makeApiClient } from '../support/service.ts';
import { type SmallDisk, smallDisk } from '../support/small-disk.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';
import { Workload } from '../support/workload.ts';

const probe = inject('postgresUrl') === null ? null : smallDisk(1);
probe?.remove();

/** Uses up the preallocated files of the write-ahead log until the server has ended. */
async function writeLog(server: PostgresServer): Promise<void> {
  let running = true;
  const over = server.ended().then(() => {
    running = false;
  });
  while (running) {
    const client = new pg.Client({ connectionString: `${server.url}/postgres`, connectionTimeoutMillis: 1_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      for (;;) await client.query(`select pg_logical_emit_message(false, '', repeat('x', 500000))`);
    } catch {
      // The server ended this session: it starts again, or has ended itself.
    } finally {
      await client.end().catch(() => {});
    }
  }
  await over;
}

describe.runIf(probe)('a full disk under the write-ahead log of PostgreSQL', () => {
  let disk: SmallDisk;
  let server: PostgresServer;
  let deployment: Deployment;
  let ports: Ports;
  let service: ServiceProcess;
  let crowd: Workload;

  beforeAll(async () => {
    disk = smallDisk(24) as SmallDisk;
    const log = join(disk.path, 'log');
    mkdirSync(log);
    // The user that runs PostgreSQL creates the folder in it.
    chmodSync(log, 0o777);
    server = (await startPostgres({ walFolder: join(log, 'pg_wal') })) as PostgresServer;
    deployment = (await makePostgresDeployment(false, server.url)) as Deployment;
    ports = await freePorts();
    service = startServiceProcess(deployment, ports);
    await service.active;
    const owner = await newOwner(deployment, (token) => makeApiClient(`http://127.0.0.1:${ports.PORT}`, token));
    crowd = new Workload(owner);
    await Promise.all([crowd.addDevice(), crowd.addDevice({ critical: true })]);
  });
  afterAll(async () => {
    await crowd?.close();
    await service?.kill();
    await deployment?.remove();
    await server?.stop();
    disk?.remove();
  });

  it('ends the server, and with its lock the service', async () => {
    await crowd.waitForProgress();
    disk.fill();
    await writeLog(server);
    expect(await service.exited).toMatchObject({ code: 1 });
  });

  it('has lost nothing that was acknowledged when both run again', async () => {
    disk.free();
    await server.restart();
    service = startServiceProcess(deployment, ports);
    await service.active;
    await crowd.waitForProgress();
    await crowd.verify();
  });
});
