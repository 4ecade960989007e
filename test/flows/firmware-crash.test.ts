import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, inject, it } from 'vitest';
import { connectPostgres } from '../../src/store/postgres/connect.ts';
import { eventually, testClock } from '../support/clock.ts';
import { type Deployment, makeDeployment } from '../support/deployment.ts';
import { makeApiClient, startService } from '../support/service.ts';
import { freePorts, newOwner, serve } from '../support/spawn-service.ts';

interface Stored {
  /** Names of the stored artifacts, and of partial ones with an ending. */
  files(): Promise<string[]>;
  close(): Promise<void>;
}

function storedInFolder({ env }: Deployment): Stored {
  const folder = join(env.DATA_DIR ?? '', 'firmware');
  return { files: async () => (existsSync(folder) ? readdirSync(folder) : []), close: async () => {} };
}

function storedInDatabase({ databaseUrl }: Deployment): Stored {
  const database = connectPostgres(databaseUrl ?? '');
  const text = `select a.name, a.bytes from artifacts a
    where exists (select from artifact_chunks c where c.artifact = a.name) order by name`;
  return {
    async files() {
      const rows = await database.read<{ name: string; bytes: number | null }>({ text });
      return rows.map(({ name, bytes }) => (bytes === null ? `${name}.part` : name));
    },
    close: () => database.close(),
  };
}

const withArtifactsIn = (kind: string, deployment: Deployment): Deployment => ({
  ...deployment,
  env: { ...deployment.env, ARTIFACT_STORE: kind },
});

const folder = { kind: 'folder', storedIn: storedInFolder };
const database = { kind: 'database', storedIn: storedInDatabase };
const kinds = inject('postgresUrl') === null ? [folder] : [folder, database];

it.each(kinds)(
  'a service killed during an upload leaves the draft unchanged, and the partial artifact is removed after its age limit ($kind)',
  async ({ kind, storedIn }) => {
    const deployment = withArtifactsIn(kind, await makeDeployment());
    const { files, close } = storedIn(deployment);
    const ports = await freePorts();
    const first = serve(deployment, ports);
    await first.active();
    const owner = await newOwner(deployment, (token) => makeApiClient(first.url, token));
    const draft = await owner.post('/v1/firmware/release', { device_type: 'light', version: '1.0.0' });
    const path = `/v1/firmware/${draft.body.id}`;
    const socket = connect(Number(ports.PORT), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `PUT ${path}/artifact HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${owner.token}\r\n` +
        'Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n',
    );
    // More than one chunk of the database.
    socket.write(randomBytes(500_000));
    await eventually(async () => (await files()).some((name) => name.endsWith('.part')));
    await first.kill();

    const second = await startService(deployment.env);
    const again = second.api(owner.token);
    expect((await again.get(path)).body.release).toEqual(draft.body.release);
    expect(await files()).toHaveLength(1);
    const uploaded = await fetch(`${second.url}${path}/artifact`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
      body: 'all of it',
    });
    expect(uploaded.status).toBe(200);
    expect(await files()).toHaveLength(2);
    await second.stop();

    const third = await startService(deployment.env, { clock: testClock(Date.now() + 3_700_000) });
    await eventually(async () => (await files()).length === 1);
    const [release] = (await third.services.store.firmware.list(owner.tenantId, {}, 1)).items;
    expect(await files()).toEqual([release?.artifact?.name]);
    await third.stop();
    await close();
    await deployment.remove();
  },
);
