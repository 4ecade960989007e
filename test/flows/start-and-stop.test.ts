import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, it } from 'vitest';
import { ConfigError } from '../../src/config/setting-readers.ts';
import { copyPglite } from '../support/pglite.ts';
import { startService } from '../support/service.ts';

it('a listener that cannot be opened is reported by its setting, and no other listener stays open', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
  copyPglite(inject('pgliteTemplate'), dataDir);
  const taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as AddressInfo;
  for (const variable of ['PORT', 'MQTT_PORT']) {
    const started = startService({ DATA_DIR: dataDir, [variable]: `${port}` });
    await expect(started).rejects.toThrow(ConfigError);
    await expect(started).rejects.toThrow(
      `${variable} cannot be opened: ${port} is in use. Set ${variable} to another port.`,
    );
  }
  // Found before the database is opened, which takes a while.
  for (const variable of ['PORT', 'MQTT_PORT']) {
    const empty = mkdtempSync(join(tmpdir(), 'twinkeep-test-'));
    await expect(startService({ DATA_DIR: empty, [variable]: `${port}` })).rejects.toThrow(ConfigError);
    expect(readdirSync(empty)).not.toContain('db');
    rmSync(empty, { recursive: true, force: true });
  }
  taken.close();
  const at = await startService({ DATA_DIR: dataDir });
  expect((await at.api().get('/health')).status).toBe(200);
  await at.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

it('requests in flight are answered before the process ends, and their connections are closed', async () => {
  const held = Promise.withResolvers<void>();
  const requested = Promise.withResolvers<void>();
  let hold = false;
  const at = await startService(
    {},
    {
      wrapStore: (store) => ({
        ...store,
        records: {
          ...store.records,
          async homes(...args) {
            if (hold) {
              requested.resolve();
              await held.promise;
            }
            return store.records.homes(...args);
          },
        },
      }),
    },
  );
  const { token } = await at.owner();
  hold = true;
  const agent = new Agent({ keepAlive: true });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    request(`${at.url}/v1/homes`, { agent, headers }, (response) => resolve(response.resume()))
      .on('error', reject)
      .end();
  });
  await requested.promise;
  const stopped = at.stop();
  held.resolve();
  const { statusCode, headers } = await answer;
  expect([statusCode, headers.connection]).toEqual([200, 'close']);
  await stopped;
});
