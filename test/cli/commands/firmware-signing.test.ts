import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli, runCliInProcess } from '../../support/cli.ts';
import { firmwareTestKey, sha256 } from '../../support/firmware-key.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-cli-signing-'));
const content = randomBytes(200_000);
const [file, pem, publicPem, other] = ['light.bin', 'private.pem', 'public.pem', 'ec.pem'].map((name) =>
  join(folder, name),
) as [string, string, string, string];
const key = firmwareTestKey();
const sign = ['firmware', 'sign', 'smart_light', '1.5.0', file, '--key', pem];

let service: HttpService;
let mine: TestTenant;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
  writeFileSync(file, content);
  writeFileSync(pem, key.pem);
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), Buffer.from(key.publicKey, 'base64url')]);
  writeFileSync(publicPem, `-----BEGIN PUBLIC KEY-----\n${der.toString('base64')}\n-----END PUBLIC KEY-----\n`);
  writeFileSync(other, 'not a key');
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...args: string[]) => runCliInProcess(args, { url: service.url, token: mine.tokens.admin });

describe('twinkeep firmware sign', () => {
  it('works without a service and without a token, and prints the signature alone', async () => {
    const signed = await runCli(sign, { HOME: folder, TWINKEEP_URL: 'http://127.0.0.1:1' });
    expect(signed).toEqual({ code: 0, stdout: `${key.sign(content)}\n`, stderr: '' });
  });

  it('prints what was signed with --json', async () => {
    const { stdout } = await run(...sign, '--json');
    expect(JSON.parse(stdout)).toEqual({
      ...{ device_type: 'smart_light', version: '1.5.0', checksum: sha256(content), size: content.length },
      ...{ key_id: key.keyId, signature: key.sign(content) },
    });
  });

  it('ends with 2 for invalid arguments, and never prints a key', async () => {
    const replaced = (n: number, value: string) => sign.map((argument, index) => (index === n ? value : argument));
    for (const [args, text] of [
      [replaced(2, 'a\nb'), 'device type'],
      [replaced(3, 'v1'), 'semantic version'],
      [replaced(4, join(folder, 'none')), 'not a readable file'],
      [replaced(6, join(folder, 'none')), 'not a readable private key'],
      [replaced(6, other), 'not a readable private key'],
      [replaced(6, publicPem), 'not a readable private key'],
      [sign.slice(0, 5), '--key'],
    ] as const) {
      const refused = await run(...args);
      expect(refused).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(text) });
      expect(refused.stderr).not.toContain(key.pem.split('\n')[1]);
    }
  });
});

describe('twinkeep firmware keys', () => {
  it('registers a key, so that signed firmware alone is released, and removes it', async () => {
    expect(await run('firmware', 'keys', 'add', pem, '--name', 'CI')).toMatchObject({
      ...{ code: 2, stderr: expect.stringContaining('is a private key') },
    });
    expect(await run('firmware', 'keys', 'add', other, '--name', 'CI')).toMatchObject({ code: 2 });
    const added = await run('firmware', 'keys', 'add', publicPem, '--name', 'CI');
    expect(added).toMatchObject({ code: 0, stdout: expect.stringContaining(key.keyId) });
    const listed = await run('firmware', 'keys');
    expect(listed.stdout).toContain(`${key.keyId}  CI`);
    expect(listed.stderr).toBe('signatures are required\n');

    const id = (await run('firmware', 'create', 'smart_light', '1.5.0', '--file', file)).stdout.trim();
    const unsigned = await run('firmware', 'release', id);
    expect(unsigned).toMatchObject({ code: 1, stderr: expect.stringContaining('FIRMWARE_SIGNATURE_REQUIRED') });
    const signature = (await run(...sign)).stdout.trim();
    const released = await run('firmware', 'release', id, '--signature', signature, '--rollout', '10');
    expect(released.stdout).toMatch(new RegExp(`^key_id +${key.keyId}$`, 'm'));
    expect((await run('firmware', 'list')).stdout).toMatch(/10 % +yes /);

    const link = ['--link', 'https://example.com/light.bin', '--checksum', sha256(content)];
    const signed = key.sign(content, { version: '1.6.0' });
    const external = ['firmware', 'create', 'smart_light', '1.6.0', ...link, '--size', `${content.length}`];
    const made = (await run(...external, '--signature', signed)).stdout.trim();
    expect(await run('firmware', 'release', made)).toMatchObject({ code: 0 });

    expect(await run('firmware', 'keys', 'remove', key.keyId)).toEqual({ code: 0, stdout: 'removed\n', stderr: '' });
    expect(await run('firmware', 'keys', 'remove', key.keyId)).toMatchObject({ code: 1 });
    expect((await run('firmware', 'keys', 'require', 'off')).stdout).toBe('not required\n');
    expect((await run('firmware', 'keys', 'require', 'on')).stdout).toBe('required\n');
    expect(await run('firmware', 'keys', 'require', 'maybe')).toMatchObject({ code: 2 });
    expect((await run('firmware', 'keys', 'add', key.publicKey, '--name', 'CI')).code).toBe(0);
  });
});
