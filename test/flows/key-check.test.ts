import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { keyId } from '../../src/domain/sealing.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';
import { freePorts, serve } from '../support/spawn-service.ts';
import { sql } from '../support/write-oracle.ts';

describe.runIf(inject('postgresUrl'))('a process whose master key does not fit the secrets in the database', () => {
  let deployment: Deployment;
  let active: TestService | undefined;
  let device: string;

  beforeAll(async () => {
    deployment = (await makePostgresDeployment()) as Deployment;
    active = await startService({ ...deployment.env });
    const owner = await active.owner();
    device = (await register(owner)).device_id;
  });
  afterAll(async () => {
    await active?.stop();
    await deployment.remove();
  });

  const read = (text: string) => sql<Record<string, unknown>>(deployment.databaseUrl ?? '', text);

  /** Ends by itself, with the name of the missing key. */
  async function refusedStart(more: Record<string, string> = {}): Promise<void> {
    const env = { MASTER_KEY: randomBytes(32).toString('base64'), LOG_LEVEL: 'error', ...more };
    const { code, stdout, stderr } = await serve(deployment, await freePorts(), { env }).exited;
    expect(code).toBe(1);
    const needed = keyId(Buffer.from(deployment.env.MASTER_KEY ?? '', 'base64'));
    expect(stdout + stderr).toContain(`encrypted with the master key ${needed} (1 device secrets)`);
  }

  it('ends instead of waiting as a standby, and the active process goes on', async () => {
    const nodes = await read('select id, epoch from nodes order by id');
    await refusedStart();
    expect(await read('select id, epoch from nodes order by id')).toEqual(nodes);
    expect(active?.fatal).toEqual([]);
  });

  it('does not become a node', async () => {
    await active?.stop();
    active = undefined;
    const nodes = await read('select id, epoch from nodes order by id');
    await refusedStart({ NODE_ADDRESS: '127.0.0.1:0' });
    expect(await read('select id, epoch from nodes order by id')).toEqual(nodes);
  });

  it('does not migrate', async () => {
    await read('delete from migrations where id = 26');
    await read('delete from expansions where id = 26');
    await refusedStart();
    expect(
      await read('select id from migrations where id = 26 union all select id from expansions where id = 26'),
    ).toEqual([]);
  });

  it('starts when the key has ended', async () => {
    await read(`update device_keys set ended_at = 1, ended_as = 'revoked' where device_id = '${device}'`);
    const started = await startService({ ...deployment.env, MASTER_KEY: randomBytes(32).toString('base64') });
    await started.stop();
  });
});
