import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const run = (...args: string[]) => runCliInProcess(['keys', ...args], { url: service.url, token: mine.tokens.owner });

it('keys create restricts a key, and keys list shows the restriction', async () => {
  const home = (await mine.call('POST', '/homes', { home_name: 'Lake' }, { token: mine.tokens.owner })).body.id;
  const scopes = ['--scope', 'read:*', '--scope', 'execute:commands'];
  const lists = ['--home', home, '--category', 'light', '--category', 'lock', '--action', 'turn_on'];
  const made = await run('create', 'Lights', ...scopes, ...lists);
  expect([made.code, made.stdout]).toEqual([0, expect.stringMatching(/^twk_\w+\n$/)]);
  // Keys that were made in the same millisecond have no order.
  const restrictionOf = async (named: string) =>
    JSON.parse((await run('list', '--json')).stdout).keys.find(({ name }: { name: string }) => name === named)
      .restrict_to;
  expect(await restrictionOf('Lights')).toEqual({ homes: [home], categories: ['light', 'lock'], actions: ['turn_on'] });
  expect((await run('list')).stdout).toContain(`homes ${home}, categories light lock, actions turn_on`);
  expect(await run('create', 'All', '--scope', 'all')).toMatchObject({ code: 0 });
  expect(await restrictionOf('All')).toBeNull();
});

it('keys create reports a place that the tenant does not have', async () => {
  const refused = await run('create', 'Lights', '--scope', 'all', '--group', 'no-such-group');
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('NOT_FOUND')]);
});
