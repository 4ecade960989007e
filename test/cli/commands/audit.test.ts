import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let lamp: string;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  await service.updateUser(mine.userId, { email: 'ada@example.com' });
  lamp = (await mine.register({ name: 'Desk lamp' })).device_id;
});
afterAll(() => service.close());

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });

it('audit shows the addresses of members, and their ids with --json', async () => {
  const list = () => run('audit', '--subject', `device:${lamp}`);
  await eventually(async () => (await list()).stdout.includes('registerDevice'));
  expect((await list()).stdout).toMatch(new RegExp(` ada@example\\.com +rest +registerDevice +device:${lamp} +done`));
  const { entries } = JSON.parse((await run('audit', '--subject', `device:${lamp}`, '--json')).stdout);
  expect(entries.map(({ by }: { by: string }) => by)).toEqual([mine.userId]);
});
