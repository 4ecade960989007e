import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { lockTiming } from '../../src/store/lock/lock-timing.ts';
import type { Server } from '../support/child-server.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { makeApiClient } from '../support/service.ts';
import { freePorts, newOwner, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { defaultLeaseLockEnv, quickLock } from '../support/two-processes.ts';
import { sql, watchWrites, writesByEpoch } from '../support/write-oracle.ts';

const closing: (() => Promise<unknown>)[] = [];

describe.runIf(inject('postgresUrl'))('a failover in which the old primary keeps running', () => {
  let deployment: Deployment;
  /** The same for all tests, with a database for each. */
  let old: Server;
  let line: TcpProxy;

  async function run(lockEnv: Record<string, string>): Promise<ServiceProcess> {
    const DATABASE_URL = line.proxiedUrl(deployment.databaseUrl ?? '');
    const service = startServiceProcess(deployment, { ...lockEnv, ...(await freePorts()), DATABASE_URL });
    closing.push(() => service.kill());
    return service;
  }

  /** Copies the old primary, and sends new connections to the copy. */
  async function promoteCopy(): Promise<Server> {
    const promoted = (await startPostgres({ copyOf: old.url })) as Server;
    closing.push(() => promoted.stop());
    line.retarget(promoted.url);
    return promoted;
  }

  beforeAll(async () => {
    old = (await startPostgres()) as Server;
  });
  afterAll(() => old?.stop());
  beforeEach(async () => {
    deployment = (await makePostgresDeployment(false, old.url)) as Deployment;
    closing.push(() => deployment.remove());
    line = await startTcpProxy(old.url);
    closing.push(() => line.close());
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  it('ends the process whose lock is on the old primary before it writes to the new one', async () => {
    const first = await run({ LOCK_TIMING: JSON.stringify({ ...quickLock, probe: 0 }) });
    await first.active;
    const firstUrl = await first.listening;
    const owner = await newOwner(deployment, (token) => makeApiClient(firstUrl, token));
    const deviceId = (await register(owner)).device_id;
    const command = () =>
      owner.post(`/v1/device/${deviceId}/command`, { action: 'turn_on' }).catch(() => ({ status: 0, body: null }));
    await watchWrites(deployment.databaseUrl ?? '');
    expect((await command()).status).toBe(202);
    const promoted = await promoteCopy();
    const second = await run(defaultLeaseLockEnv);
    await second.active;
    // Connections to the old primary break one by one, as after a change of name or address.
    await sql(
      deployment.databaseUrl ?? '',
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'twinkeep'`,
    );
    let over = false;
    void first.exited.then(() => {
      over = true;
    });
    const accepted: string[] = [];
    while (!over) {
      const { status, body } = await command();
      if (status === 202) accepted.push(body.command_id);
    }
    expect(await first.exited).toMatchObject({ code: 1 });
    const next = makeApiClient(await second.listening, owner.token);
    expect((await next.post('/v1/homes', { home_name: 'Next' })).status).toBe(201);
    const url = `${promoted.url}${new URL(deployment.databaseUrl ?? '').pathname}`;
    expect(await sql(url, 'select id from commands where id = any($1::uuid[])', [accepted])).toEqual([]);
    expect(await writesByEpoch(url)).toMatchObject([
      { epoch: 1, violations: [] },
      { epoch: 2, violations: [] },
    ]);
  });

  it('ends that process also while all its connections to the old primary stay open', async () => {
    const first = await run({ LOCK_TIMING: JSON.stringify({ ...lockTiming, probe: 200 }) });
    await first.active;
    await promoteCopy();
    const { code, stderr } = await first.exited;
    expect(code).toBe(1);
    expect(stderr).toContain(
      'active lock: lost new connections lead to a server that does not hold the active lock of this node',
    );
  });

  it('has no effect on a process whose connections all lead to the server with its lock', async () => {
    const service = await run({ LOCK_TIMING: JSON.stringify({ ...lockTiming, probe: 50 }) });
    await service.active;
    let ended = false;
    void service.exited.then(() => {
      ended = true;
    });
    const url = await service.listening;
    const owner = await newOwner(deployment, (token) => makeApiClient(url, token));
    const before = line.opened('twinkeep server probe');
    // A probe begins when the one before has ended without a finding.
    await eventually(() => line.opened('twinkeep server probe') > before + 5);
    expect((await owner.post('/v1/homes', { home_name: 'Next' })).status).toBe(201);
    expect((await fetch(`${url}/health/ready`)).status).toBe(200);
    expect(ended).toBe(false);
  });
});
