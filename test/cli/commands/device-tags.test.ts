import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });
const register = async (...args: string[]): Promise<string> => {
  const made = await run('devices', 'register', 'smart_light', '--home', mine.homeId, '--json', ...args);
  expect(made.code).toBe(0);
  return JSON.parse(made.stdout).device_id;
};

describe('twinkeep devices', () => {
  it('gives tags, adds and removes them, and finds devices by them and by a text', async () => {
    const lamp = await register('--tag', 'evening', '--tag', 'floor:1', '--name', 'Desk lamp');
    const porch = await register('--tag', 'evening', '--name', 'Porch');
    expect(await run('devices', 'tag', 'add', porch, 'outdoor', 'evening')).toEqual({
      ...{ code: 0, stdout: 'evening\noutdoor\n', stderr: '' },
    });
    const removed = await run('devices', 'tag', 'remove', lamp, 'floor:1', 'none');
    expect(removed).toEqual({ code: 0, stdout: 'evening\n', stderr: '' });
    const found = async (...args: string[]) =>
      JSON.parse((await run('devices', 'list', '--json', ...args)).stdout).devices.map(({ id }: { id: string }) => id);
    expect(await found('--tag', 'evening')).toEqual([porch, lamp]);
    expect(await found('--tag', 'evening', '--tag', 'outdoor')).toEqual([porch]);
    expect(await found('--search', 'desk')).toEqual([lamp]);
    expect((await run('devices', 'list', '--tag', 'outdoor')).stdout).toMatch(/TAGS *\n.*Porch.* evening outdoor/);
    expect((await run('devices', 'tag')).stdout).toMatch(/^TAG +DEVICES\nevening +2\noutdoor +1\n$/);
  });

  it('ends with 1 for a tag that is not valid', async () => {
    const id = await register();
    const { code, stderr } = await run('devices', 'tag', 'add', id, 'Two Words');
    expect([code, stderr]).toEqual([1, expect.stringContaining('add_tags.0')]);
  });
});
