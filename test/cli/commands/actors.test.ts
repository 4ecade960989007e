import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { runCli, runCliInProcess } from '../../support/cli.ts';
import { eventually } from '../../support/clock.ts';
import type { HttpService } from '../../support/http-service.ts';
import { startTestSockets, type TestSockets } from '../../support/state-sockets.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let edge: TestSockets;
let mine: TestTenant;
let lamp: string;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  edge = await startTestSockets(service);
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  lamp = (await mine.register()).device_id;
});
afterAll(async () => {
  await edge.close();
  await service.close();
});

const runAs = (token: string, ...args: string[]) => runCliInProcess(args, { url: service.url, token });
const run = (...args: string[]) => runAs(mine.tokens.admin, ...args);

it('actors lists them, shows one with its journal, and prints JSON for programs', async () => {
  const listed = await run('actors', '--kind', 'device');
  expect(listed.stdout).toMatch(new RegExp(`device +${lamp} +administration.active.one_key,link.offline +1 .* live`));
  const shown = await run('actors', 'show', 'device', lamp);
  expect(shown.stdout).toMatch(/next_events +.*revoke/);
  expect(shown.stdout).toContain('"device_type": "smart_light"');
  expect((await run('actors', 'journal', 'device', lamp)).stdout).toMatch(/1 .* register .*one_key/);
  const { actors } = JSON.parse((await run('actors', '--state', 'offline', '--json')).stdout);
  expect(actors).toMatchObject([{ id: lamp, mailbox: 0 }]);
});

it('actors reports refusals of the service with their codes', async () => {
  expect(await run('actors', '--state', 'nowhere')).toMatchObject({ code: 1, stdout: '' });
  const user = await runAs(mine.tokens.user, 'actors');
  expect([user.code, user.stderr]).toEqual([1, expect.stringContaining('FORBIDDEN_ROLE')]);
  expect((await run('actors', 'show', 'device', v7())).stderr).toContain('NOT_FOUND');
});

it('actors release ends a quarantine', async () => {
  await service.store.actors.quarantine({ kind: 'device', id: lamp }, 'it failed');
  expect((await run('actors', '--quarantined')).stdout).toMatch(new RegExp(`${lamp} .* quarantined`));
  expect((await run('actors', 'release', 'device', lamp)).stdout).toBe('released\n');
  expect((await run('actors', 'release', 'device', lamp)).stderr).toContain('ILLEGAL_TRANSITION');
});

it('a platform operator lists the actors of another tenant by naming it', async () => {
  const operator = await service.token(v7(), { scope: 'platform:admin' });
  const { stdout } = await runAs(operator, 'actors', '--tenant', mine.tenantId, '--json');
  expect(JSON.parse(stdout).actors).toHaveLength(2);
  await service.store.actors.quarantine({ kind: 'device', id: lamp }, 'it failed');
  const released = await runAs(operator, 'actors', 'release', 'device', lamp, '--tenant', mine.tenantId);
  expect(released.stdout).toBe('released\n');
});

it('actors --watch prints transitions as they happen', async () => {
  const watching = runCli(['actors', '--watch', '--kind', 'device', '--count', '2', '--json'], {
    ...{ TWINKEEP_URL: service.url, TWINKEEP_TOKEN: mine.tokens.admin },
  });
  await eventually(() => edge.edge.watching > 0);
  await mine.report(lamp, { on: true });
  await mine.call('POST', `/device/${lamp}/revoke`, {});
  const { code, stdout } = await watching;
  const received = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).event);
  expect([code, received]).toEqual([0, ['state.reported', 'revoke']]);
});

it('actors machines lists the machines, and prints one with its diagram', async () => {
  expect((await run('actors', 'machines')).stdout).toMatch(/^tenant +1 /m);
  expect((await run('actors', 'machines', 'tenant')).stdout).toContain('```mermaid\nstateDiagram-v2');
});

it('audit lists the actions of users', async () => {
  await mine.call('POST', '/homes', { home_name: 'x' }, { token: mine.tokens.viewer });
  await eventually(async () => (await run('audit', '--action', 'createHome')).stdout.includes('FORBIDDEN_ROLE'));
  const { stdout } = await run('audit', '--subject', `device:${lamp}`);
  expect(stdout).toMatch(new RegExp(`${mine.userId} +rest +registerDevice +device:${lamp} +done +1 +- +-`));
  await service.store.audit.append([
    {
      ...{ id: v7(), tenantId: mine.tenantId, at: service.clock.now(), by: mine.userId, key: null, via: 'rest' },
      ...{ action: 'signIn', subject: `user:${mine.userId}`, outcome: 'UNAUTHENTICATED', requestId: v7() },
      ...{ address: '192.0.2.7', client: 'Browser/1.0 \u202egnp', count: 19 },
    },
  ]);
  const repeated = (await run('audit', '--action', 'signIn')).stdout;
  expect(repeated).toMatch(/^AT +BY +VIA +ACTION +SUBJECT +OUTCOME +COUNT +ADDRESS +CLIENT$/m);
  expect(repeated).toMatch(/UNAUTHENTICATED +19 +192\.0\.2\.7 +Browser\/1\.0 \\u\{202e\}gnp$/m);
  const { entries } = JSON.parse((await run('audit', '--by', mine.userId, '--limit', '2', '--json')).stdout);
  expect(entries).toHaveLength(2);
  const operator = await service.token(v7(), { scope: 'platform:admin' });
  expect((await runAs(operator, 'audit', '--platform')).code).toBe(0);
});

it('audit export writes NDJSON or CSV', async () => {
  const lines = (await run('audit', 'export', '--subject', `device:${lamp}`)).stdout.trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line).action)).toContain('registerDevice');
  const { stdout } = await run('audit', 'export', '--format', 'csv', '--to', '2026-01-01T00:00:00Z');
  expect(stdout).toBe(
    '"at","by","key","via","action","subject","outcome","request_id","address","client","count","subject_name"\r\n',
  );
  expect((await run('audit', 'export', '--from', 'yesterday')).code).toBe(1);
});

it('audit verify prints the head, which a later run takes, and fails if the log is not intact', async () => {
  const first = await run('audit', 'verify');
  expect(first.stdout).toMatch(/^\d+ entries in \d+ blocks are intact\.\n/);
  const { head } = JSON.parse((await run('audit', 'verify', '--json')).stdout);
  expect(first.stdout).toContain(head.split(':')[0]);
  expect((await run('audit', 'verify', '--from', head)).code).toBe(0);
  const other = await run('audit', 'verify', '--from', `${head.split(':')[0]}:${'0'.repeat(64)}`);
  expect(other.code).toBe(1);
  expect(other.stdout).toContain('The audit log is not intact: Block');
  expect((await run('audit', 'verify', '--from', '99:x')).code).toBe(1);
});
