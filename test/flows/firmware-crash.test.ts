import { existsSync, readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually, testClock } from '../support/clock.ts';
import { makePgliteDeployment } from '../support/deployment.ts';
import { makeApiClient, startService } from '../support/service.ts';
import { freePorts, newOwner, serve } from '../support/spawn-service.ts';

it('a service killed during an upload leaves the draft unchanged, and the partial file is removed after its age limit', async () => {
  const deployment = await makePgliteDeployment();
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
      'Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nhalf of it',
  );
  const folder = join(deployment.env.DATA_DIR ?? '', 'firmware');
  const files = () => (existsSync(folder) ? readdirSync(folder) : []);
  await eventually(() => files().some((name) => name.endsWith('.part')));
  await first.kill();

  const second = await startService(deployment.env);
  const again = second.api(owner.token);
  expect((await again.get(path)).body.release).toEqual(draft.body.release);
  expect(files()).toHaveLength(1);
  const uploaded = await fetch(`${second.url}${path}/artifact`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
    body: 'all of it',
  });
  expect(uploaded.status).toBe(200);
  expect(files()).toHaveLength(2);
  await second.stop();

  const third = await startService(deployment.env, { clock: testClock(Date.now() + 3_700_000) });
  await eventually(() => files().length === 1);
  const [release] = (await third.services.store.firmware.list(owner.tenantId, {}, 1)).items;
  expect(files()).toEqual([release?.artifact?.name]);
  await third.stop();
  await deployment.remove();
});
