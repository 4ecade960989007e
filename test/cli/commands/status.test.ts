import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { startService, type TestService } from '../../support/service.ts';

let at: TestService;
beforeAll(async () => {
  at = await startService();
});
afterAll(() => at?.stop());

/** The token is not one of the service: the command needs none. */
const run = (url: string, ...args: string[]) => runCliInProcess(['status', ...args], { url, token: 'x' });

it('twinkeep status shows the version and the parts of the service', async () => {
  const { code, stdout, stderr } = await run(at.url);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^status +operational$/m);
  expect(stdout).toMatch(/^version +\d+\.\d+\.\d+$/m);
  expect(stdout).toMatch(/^database +operational$/m);
  const { status, health } = JSON.parse((await run(at.url, '--json')).stdout);
  expect([status.status, health.status]).toEqual(['operational', 'ok']);
});

it('ends with 1 while the service is degraded, and with 3 without an answer', async () => {
  const degraded = createServer(({ url }, response) => {
    const body =
      url === '/health'
        ? { status: 'degraded', checks: { database: false, api: true } }
        : { system: 'twinkeep', status: 'degraded', version: '1.0.0', protocol: 'x' };
    response.writeHead(url === '/health' ? 503 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => degraded.listen(0, '127.0.0.1', resolve));
  try {
    const { code, stdout, stderr } = await run(`http://127.0.0.1:${(degraded.address() as AddressInfo).port}`);
    expect([code, stderr]).toEqual([1, 'error: the service is degraded\n']);
    expect(stdout).toMatch(/^database +degraded\napi +operational$/m);
  } finally {
    degraded.close();
  }
  expect((await run('http://127.0.0.1:1')).code).toBe(3);
});
