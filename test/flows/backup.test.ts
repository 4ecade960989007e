import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { describe, expect, inject, it } from 'vitest';
import { type Deployment, makePgliteDeployment, makePostgresDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { postgresProgram } from '../support/programs.ts';
import { startService, type TestService } from '../support/service.ts';

type Owner = Awaited<ReturnType<TestService['owner']>>;

const turn_on = () => ({ state: { on: true, brightness: 70 } });

/** A light with one succeeded and one pending command, and a release with its artifact. */
async function fill(owner: Owner) {
  const lamp = await register(owner, { name: 'Lamp' });
  const device = await connect(lamp, { commands: { turn_on } });
  const done = (await owner.post(`/v1/device/${lamp.device_id}/command`, { action: 'turn_on' })).body.command_id;
  await waitForCommand(owner, done, ({ status }) => status === 'succeeded');
  await device.close(0);
  const open = await owner.post(`/v1/device/${lamp.device_id}/command`, { action: 'turn_on', ttl_s: 3_600 });
  const draft = await owner.post('/v1/firmware/release', { device_type: 'smart_light', version: '1.4.0' });
  const octets = { 'content-type': 'application/octet-stream' };
  const put = await owner.put(`/v1/firmware/${draft.body.id}/artifact`, 'the firmware', octets);
  expect(put.status).toBe(200);
  return { lamp, done, open: open.body.command_id as string, firmware: draft.body.id as string };
}

/** Checks that everything was restored: the light signs in with its secret and runs the pending command. */
async function check(at: TestService, { lamp, done, open, firmware }: Awaited<ReturnType<typeof fill>>): Promise<void> {
  const owner = at.api(await at.token('owner-1'));
  expect((await owner.get(`/v1/commands/${done}`)).body.command.status).toBe('succeeded');
  const { release } = (await owner.get(`/v1/firmware/${firmware}`)).body;
  const { pathname, search } = new URL(release.url);
  expect((await at.api().get(pathname + search)).body).toBe('the firmware');
  const device = await connect({ ...lamp, mqtt_url: at.service.mqttUrl() }, { commands: { turn_on } });
  await waitForCommand(owner, open, ({ status }) => status === 'succeeded');
  await device.close(0);
}

async function dropRole({ databaseUrl }: Deployment): Promise<void> {
  const client = new pg.Client({ connectionString: `${inject('postgresUrl')}/postgres` });
  await client.connect();
  await client.query(`drop role ${new URL(databaseUrl ?? '').pathname.slice(1)}_tenant`);
  await client.end();
}

describe.runIf(inject('postgresUrl'))('a dump of PostgreSQL, the artifacts and the keys', () => {
  const run = (name: string, args: string[]) =>
    execFileSync(postgresProgram(name), args, { env: { ...process.env, LC_ALL: 'C' }, stdio: 'pipe' });

  it.each(['folder', 'database'])('taken while the service runs can be restored completely (%s)', async (kind) => {
    const [source, target] = (await Promise.all([makePostgresDeployment(), makePostgresDeployment(true)])) as [
      Deployment,
      Deployment,
    ];
    const backup = mkdtempSync(join(tmpdir(), 'twinkeep-backup-'));
    const settings = { ...source.env, ARTIFACT_STORE: kind } as Record<string, string>;
    const at = await startService(settings);
    const filled = await fill(await at.owner());
    run('pg_dump', ['--format=custom', `--file=${join(backup, 'dump')}`, source.databaseUrl ?? '']);
    // The dump contains the artifacts that are in the database.
    const folder = kind === 'folder' ? 'firmware' : null;
    if (folder !== null) cpSync(join(source.env.DATA_DIR ?? '', folder), join(backup, folder), { recursive: true });
    await at.stop();

    // The server of the copy does not have the role of tenants.
    await source.remove();
    await dropRole(source);
    const options = ['--no-owner', '--no-privileges', '--exit-on-error', `--dbname=${target.databaseUrl}`];
    run('pg_restore', [...options, join(backup, 'dump')]);
    if (folder !== null) cpSync(join(backup, folder), join(target.env.DATA_DIR ?? '', folder), { recursive: true });
    const { DATABASE_URL, DATA_DIR } = target.env as Record<string, string>;
    const restored = await startService({ ...settings, ...{ DATABASE_URL, DATA_DIR } } as Record<string, string>);
    await check(restored, filled);
    await restored.stop();
    rmSync(backup, { recursive: true });
    await target.remove();
  });
});

describe('a copy of the folder of an embedded store', () => {
  it('that was stopped can be restored completely', async () => {
    const source = await makePgliteDeployment();
    const copy = mkdtempSync(join(tmpdir(), 'twinkeep-backup-'));
    const at = await startService(source.env);
    const filled = await fill(await at.owner());
    await at.stop();
    cpSync(source.env.DATA_DIR ?? '', copy, { recursive: true });
    await source.remove();
    const restored = await startService({ ...source.env, DATA_DIR: copy });
    await check(restored, filled);
    await restored.stop();
    rmSync(copy, { recursive: true });
  });
});
