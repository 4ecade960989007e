import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { runCliInProcess } from '../../support/cli.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let device: string;
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-cli-manifests-'));
const file = join(folder, 'manifest.json');

beforeAll(async () => {
  service = await startHttpService();
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  device = (await mine.register({ device_type: 'esp32' })).device_id;
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });
const put = (content: object) => {
  writeFileSync(file, JSON.stringify(content));
  return run('manifests', 'put', device, file);
};
const gate = { action: 'open_gate', safetyClass: 'CRITICAL', description: 'Opens the gate' };
const SENTENCE = "'open_gate' will need no confirmation: it is CRITICAL now, and becomes NORMAL.";
/** Publishes a manifest, and requests a weaker one: the id of its change request. */
async function requestWeaker(): Promise<string> {
  expect((await put({ capabilities: [gate] })).code).toBe(0);
  const requested = await put({ capabilities: [{ action: 'open_gate' }] });
  return /changes approve (\S+)/.exec(requested.stdout)?.[1] as string;
}

describe('twinkeep manifests', () => {
  it('publishes the first manifest of a device, and the edited output of get', async () => {
    const first = await put({ category: 'cover', capabilities: [gate, { action: 'wave' }] });
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout.split('\n')[0]).toBe('version 1, cover');
    expect(first.stdout.split('\n')[2]?.split(/ {2,}/)).toEqual(['open_gate', 'CRITICAL', '-', 'Opens the gate']);
    const shown = JSON.parse((await run('manifests', 'get', device, '--json')).stdout);
    shown.capabilities[1].safetyClass = 'CRITICAL';
    expect((await put(shown)).stdout).toMatch(/^version 2, cover\n/);
    const outdated = await put(shown);
    expect([outdated.code, outdated.stderr]).toEqual([1, expect.stringContaining('409 CONFLICT')]);
  });

  it('adopts the manifest of a category, for a device that was registered without one', async () => {
    const bare = await run('devices', 'register', 'esp32 plug', '--home', mine.homeId);
    expect(bare.code).toBe(0);
    expect(bare.stderr).toContain('The device has no manifest and accepts no commands');
    const named = await run('devices', 'register', 'esp32 plug', '--home', mine.homeId, '--category', 'switch');
    expect([named.code, named.stderr]).toEqual([0, expect.not.stringContaining('no manifest')]);
    expect(named.stdout).toMatch(/category +switch\nmanifest_version +1\n/);
    const adopted = await run('manifests', 'adopt', device, 'switch');
    expect([adopted.code, adopted.stderr]).toEqual([0, '']);
    expect(adopted.stdout).toMatch(/^version 1, switch\n/);
    expect(adopted.stdout).toContain('turn_on');
    expect((await run('manifests', 'adopt', device, 'boat')).stderr).toContain('400 VALIDATION_FAILED');
  });

  it('shows what gets weaker and how to confirm it, and publishes nothing', async () => {
    await put({ capabilities: [gate] });
    const { code, stdout, stderr } = await put({ capabilities: [{ action: 'open_gate' }] });
    expect([code, stderr]).toEqual([1, expect.stringContaining('the change has to be confirmed first')]);
    expect(stdout.split('\n')).toEqual([
      'not applied: The change makes one thing weaker and needs confirmation.',
      `  ${SENTENCE}`,
      expect.stringMatching(/^confirm until \S+:$/),
      expect.stringMatching(/^ {2}twinkeep changes approve [0-9a-f-]{36}$/),
      '',
    ]);
    expect((await run('manifests', 'get', device)).stdout).toContain('CRITICAL');
  });

  it('ends with 2 for a file without a manifest, and with 1 for a device that does not exist', async () => {
    for (const content of [[], {}, { capabilities: 1 }]) expect((await put(content)).code).toBe(2);
    expect((await run('manifests', 'put', device, join(folder, 'missing'))).code).toBe(2);
    device = mine.tenantId;
    expect((await put({ capabilities: [] })).stderr).toContain('404 NOT_FOUND');
  });
});

describe('twinkeep changes', () => {
  it('lists, shows and approves a change', async () => {
    expect(await run('changes')).toEqual({ code: 0, stdout: '', stderr: 'none\n' });
    const id = await requestWeaker();
    const listed = (await run('changes')).stdout.split('\n')[1]?.split(/ {2,}/);
    expect(listed).toEqual([
      ...[id, 'updateManifest', `device:${device}`, 'awaiting_confirmation', expect.any(String), SENTENCE],
    ]);
    expect((await run('changes', 'get', id)).stdout).toContain(`  ${SENTENCE}\n`);
    const unasked = await run('changes', 'approve', id);
    expect([unasked.code, unasked.stderr]).toEqual([2, expect.stringContaining('give --yes')]);
    expect(unasked.stderr).toContain(SENTENCE);
    expect(await run('changes', 'approve', id, '--yes')).toEqual({ code: 0, stdout: 'applied\n', stderr: '' });
    expect((await run('changes', 'approve', id, '--yes')).stderr).toContain('409 ILLEGAL_TRANSITION');
    expect((await run('changes', 'approve', id)).stderr).toContain('the change is applied');
    expect((await run('changes')).stderr).toBe('none\n');
    expect((await run('changes', 'list', '--all')).stdout).toContain(id);
  });

  it('lists the names of devices, and their ids with --json', async () => {
    await run('devices', 'rename', device, 'Garden gate');
    const id = await requestWeaker();
    const listed = (await run('changes')).stdout.split('\n')[1]?.split(/ {2,}/);
    expect(listed?.slice(0, 3)).toEqual([id, 'updateManifest', 'device:Garden gate']);
    const { changes } = JSON.parse((await run('changes', '--json')).stdout);
    expect(changes).toMatchObject([{ id, subject: `device:${device}` }]);
  });

  it('confirms a change with its token, and refuses another one', async () => {
    await put({ capabilities: [gate] });
    writeFileSync(file, JSON.stringify({ capabilities: [{ action: 'open_gate' }] }));
    const dryRun = async () => JSON.parse((await run('manifests', 'put', device, file, '--json')).stdout);
    const first = await dryRun();
    const refused = await run('changes', 'refuse', first.change_id, '--reason', 'No');
    expect([refused.code, refused.stdout]).toEqual([0, 'refused\n']);
    const second = await dryRun();
    const wrong = await run('changes', 'confirm', second.change_id, first.dry_run_token);
    expect(wrong.stderr).toContain('403 CONFIRMATION_FAILED');
    const confirmed = await run('changes', 'confirm', second.change_id, second.dry_run_token);
    expect(confirmed.stdout).toBe('applied\n');
  });
});
