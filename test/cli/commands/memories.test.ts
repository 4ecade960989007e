import { v7 } from 'uuid';
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

const run = (...args: string[]) =>
  runCliInProcess(['memories', ...args], { url: service.url, token: mine.tokens.user });

const TEXT = 'Good night:\nall lights off, \u{202e}door locked';

it('memories adds, lists with filters, and deletes', async () => {
  const added = await run('add', 'routine', TEXT, '--subject', 'house', '--tag', 'night', '--tag', 'light');
  expect(added).toEqual({ code: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/), stderr: '' });
  const id = added.stdout.trim();
  const other = (await run('add', 'preference', `Warm ${'light '.repeat(100)}`, '--expires', '30d')).stdout.trim();

  const listed = await run('--search', 'lights -warm', '--kind', 'routine', '--subject', 'house', '--tag', 'night');
  expect(listed.stdout.split('\n')[1]?.split(/ {2,}/)).toEqual([
    ...[id, 'routine', expect.any(String), '-', expect.stringMatching(/^user:/), '-', 'house', 'night light'],
    'Good night: all lights off, \\u{202e}door locked',
  ]);
  const lines = (await run()).stdout.trim().split('\n');
  expect(lines).toHaveLength(3);
  expect(lines[1]).toMatch(new RegExp(`^${other} .* Warm (light )+.*…$`));

  const page = JSON.parse((await run('list', '--limit', '1', '--json')).stdout);
  expect(page.memories).toMatchObject([{ id: other, expires_at: expect.any(String) }]);
  const rest = JSON.parse((await run('list', '--cursor', page.next_cursor, '--json')).stdout);
  expect(rest.memories).toMatchObject([{ id, content: TEXT }]);

  expect(await run('delete', id, other)).toEqual({ code: 0, stdout: '', stderr: '' });
  expect(await run()).toEqual({ code: 0, stdout: '', stderr: 'none\n' });
});

it('memories reports refusals of the service and unknown kinds', async () => {
  const refused = await run('delete', v7());
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('NOT_FOUND')]);
  expect((await run('add', 'routine', ' ')).stderr).toContain('VALIDATION_FAILED');
  expect((await run('add', 'dream', 'x')).code).toBe(2);
  expect((await run('--kind', 'dream')).code).toBe(2);
});

it('memories shows suggestions, and adopts them', async () => {
  const body = { name: 'agent', scopes: ['write:memory'] };
  const { key } = (await mine.call('POST', '/auth/api-keys', body)).body;
  const as =
    (token: string) =>
    (...args: string[]) =>
      runCliInProcess(['memories', ...args], { url: service.url, token });
  const id = (await as(key)('add', 'routine', 'turn off the lamp', '--subject', 'Party')).stdout.trim();
  await run('add', 'routine', 'turn on the lamp', '--subject', 'Morning');
  const lines = (await run('--suggestions')).stdout.trim().split('\n');
  expect(lines).toHaveLength(2);
  expect(lines[1]?.split(/ {2,}/)).toContain('suggestion');
  const refused = await as(key)('adopt', id, '--yes');
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('INSUFFICIENT_SCOPE')]);
  const asked = await run('adopt', id);
  expect([asked.code, asked.stderr]).toEqual([
    2,
    expect.stringMatching(/routine.* "Party" by key:[\s\S]*turn off the lamp/),
  ]);
  expect((await run('--suggestions')).stdout).toContain(id);
  expect(await run('adopt', id, '--yes')).toEqual({ code: 0, stdout: '', stderr: '' });
  expect((await run('--suggestions')).stderr).toBe('none\n');
  expect((await run()).stdout).toMatch(/adopted by [0-9a-f-]{36}/);
});
