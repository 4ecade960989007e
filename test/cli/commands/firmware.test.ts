import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PLATFORM_SCOPE } from '../../../src/services/tokens.ts';
import { runCliInProcess } from '../../support/cli.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let token: string;
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-cli-firmware-'));
const content = randomBytes(400_000);
const file = join(folder, 'light.bin');

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  token = mine.tokens.admin;
  writeFileSync(file, content);
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token });

describe('twinkeep firmware', () => {
  it('creates a draft with a file, releases, lists, checks and withdraws it', async () => {
    const made = await run('firmware', 'create', 'smart_light', '1.5.0', '--file', file, '--notes', 'Smoother');
    expect(made).toMatchObject({ code: 0, stderr: '' });
    const id = made.stdout.trim();
    const shown = (await mine.call('GET', `/firmware/${id}`)).body.release;
    expect(shown).toMatchObject({ notes: 'Smoother', checksum: createHash('sha256').update(content).digest('hex') });

    const released = await run('firmware', 'release', id, '--rollout', '10');
    expect(released.stdout).toMatch(/^rollout_percent +10$/m);
    const listed = await run('firmware', 'list', '--type', 'smart_light', '--status', 'released');
    expect(listed.stdout.split('\n')[1]?.split(/ {2,}/).slice(0, 5)).toEqual([
      ...[id, 'smart_light', '1.5.0', 'released', '10 %'],
    ]);
    await run('firmware', 'release', id, '--rollout', '100');
    const check = JSON.parse((await run('firmware', 'check', 'smart_light', '1.4.2', '--json')).stdout);
    expect(check).toMatchObject({ update_available: true, target_version: '1.5.0' });
    expect(await run('firmware', 'withdraw', id)).toEqual({ code: 0, stdout: 'withdrawn\n', stderr: '' });
  });

  it('replaces the artifact of a draft', async () => {
    const id = (await run('firmware', 'create', 'smart_light', '1.6.0')).stdout.trim();
    const uploaded = await run('firmware', 'upload', id, file, '--json');
    expect(JSON.parse(uploaded.stdout)).toMatchObject({ status: 'uploaded', release: { status: 'draft' } });
  });

  it('ends with 2 for invalid arguments, and with 1 for a refusal of the service', async () => {
    const large = join(folder, 'large.bin');
    writeFileSync(large, '');
    const upload = () => run('firmware', 'upload', 'x', large);
    expect(await upload()).toMatchObject({ code: 2, stderr: expect.stringContaining('has 0') });
    truncateSync(large, 64 * 1024 * 1024 + 1);
    expect(await upload()).toMatchObject({ code: 2, stderr: expect.stringContaining('has 67108865') });
    expect(await run('firmware', 'upload', 'x', join(folder, 'none'))).toMatchObject({ code: 2 });
    expect(await run('firmware', 'check')).toMatchObject({ code: 2 });
    const refused = await run('firmware', 'create', 'smart_light', 'v1');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('version: is not a semantic version') });
  });
});

describe('twinkeep admin', () => {
  it('is refused to a user who is not an operator', async () => {
    expect(await run('admin', 'tenants')).toMatchObject({ code: 1, stderr: expect.stringContaining('FORBIDDEN') });
  });

  it('lists tenants page by page, suspends, resumes and sets tiers', async () => {
    const of = token;
    token = await service.token('operator', { scope: PLATFORM_SCOPE });
    await service.owner('Second');
    const first = await run('admin', 'tenants', '--limit', '1');
    expect(first.stdout).toContain('Second');
    const [, cursor = ''] = /more: --cursor (\S+)/.exec(first.stderr) ?? [];
    const second = JSON.parse((await run('admin', 'tenants', '--cursor', cursor, '--json')).stdout);
    expect(second.map(({ id }: { id: string }) => id)).toEqual([mine.tenantId]);

    const suspended = await run('admin', 'suspend', mine.tenantId, '--reason', 'Unpaid');
    expect(suspended).toEqual({ code: 0, stdout: 'suspended\n', stderr: '' });
    expect((await mine.call('GET', '/homes')).status).toBe(403);
    expect((await run('admin', 'resume', mine.tenantId)).stdout).toBe('active\n');
    expect((await mine.call('GET', '/homes')).status).toBe(200);
    expect((await run('admin', 'tier', mine.tenantId, 'pro')).stdout).toMatch(/^tier +pro$/m);
    expect(await run('admin', 'tier', mine.tenantId, 'gold')).toMatchObject({ code: 1 });

    expect((await run('admin', 'flags')).stdout).toMatch(/^maintenance_mode +off$/m);
    expect((await run('admin', 'flags', 'maintenance_mode', 'on')).stdout).toMatch(/^maintenance_mode +on$/m);
    expect(service.flags.current().maintenance_mode).toBe(true);
    expect((await run('admin', 'flags', 'maintenance_mode', 'off')).stdout).toMatch(/^maintenance_mode +off$/m);
    expect(await run('admin', 'flags', 'maintenance_mode', 'maybe')).toMatchObject({ code: 2 });
    expect(await run('admin', 'flags', 'beta')).toMatchObject({ code: 2 });
    expect(await run('admin', 'flags', 'beta', 'on')).toMatchObject({ code: 1 });
    token = of;
  });
});
