import { execFile, spawn } from 'node:child_process';
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { isBuiltin } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deviceProgram } from '../../console/src/devices/device-programs.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { codeBlock, readDocument } from '../support/documented-session.ts';
import { nodeEnv } from '../support/node-flags.ts';
import { startService, type TestService } from '../support/service.ts';

/*
 * The package @twinkeep/device as a device maker gets it: packed, installed without the network in an empty folder, and
 * run against the service.
 */

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const page = readDocument('docs/devices.md');
let folder: string;
let installed: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'twinkeep-device-package-'));
  const packed = await run('npm', ['pack', '--silent', '--pack-destination', folder], {
    cwd: join(root, 'packages/device'),
  });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  const tarball = packed.stdout.trim().split('\n').at(-1) ?? '';
  const options = ['--offline', '--no-audit', '--no-fund', '--silent', `--cache=${join(folder, 'cache')}`];
  await run('npm', ['install', ...options, join(folder, tarball)], { cwd: folder });
  installed = join(folder, 'node_modules/@twinkeep/device');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const filesIn = (path: string): string[] =>
  readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => statSync(join(path, name)).isFile());

describe('an installation of @twinkeep/device', () => {
  it('has no dependencies, and takes less than 5 MB', () => {
    const packages = readdirSync(join(folder, 'node_modules'), { encoding: 'utf8' }).filter((name) => name[0] !== '.');
    expect(packages).toEqual(['@twinkeep']);
    expect(readdirSync(join(folder, 'node_modules/@twinkeep'))).toEqual(['device']);
    const bytes = filesIn(installed).reduce((sum, name) => sum + statSync(join(installed, name)).size, 0);
    expect(bytes).toBeLessThan(5_000_000);
  });

  it('imports only its own modules and those of Node.js', () => {
    const modules = filesIn(join(installed, 'dist')).filter((name) => name.endsWith('.js'));
    expect(modules).toEqual(expect.arrayContaining(['device.js', 'firmware.js', 'store.js']));
    const imports = modules.flatMap((name) =>
      [...readFileSync(join(installed, 'dist', name), 'utf8').matchAll(/^import [^'"]*['"]([^'"]+)['"]/gm)].map(
        ([, from = '']) => from,
      ),
    );
    expect(imports).toContain('node:crypto');
    expect(imports.filter((from) => !isBuiltin(from) && !from.startsWith('./'))).toEqual([]);
  });

  it('has the licences of the libraries in it', () => {
    const licenses = readFileSync(join(installed, 'dist/licenses.md'), 'utf8');
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'packages/device/package.json'), 'utf8'));
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    for (const name of ['mqtt', 'canonicalize']) {
      expect(devDependencies[name]).toBe(dependencies[name]);
      expect(licenses).toContain(`## ${name} - ${dependencies[name]} (`);
    }
  });

  it('has types that a strict compilation accepts, libraries included', async () => {
    symlinkSync(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'));
    writeFileSync(
      join(folder, 'consumer.ts'),
      `import { connectDevice, type Device, type DeviceOptions } from '@twinkeep/device';
import { fetchFirmware } from '@twinkeep/device/firmware';
import { type DeviceStore, fileStore } from '@twinkeep/device/store';
const store: DeviceStore = fileStore('memory.json');
const options: DeviceOptions = { mqttUrl: '', tenantId: '', deviceId: '', secret: '', store, tls: { ca: 'PEM' } };
const device: Device = await connectDevice(options);
const reported: boolean = await device.report({ on: true });
const { content } = await fetchFirmware({ url: '', checksum: '' });
// @ts-expect-error The secret is required.
void connectDevice({ mqttUrl: '', tenantId: '', deviceId: '' });
void [reported, content];
`,
    );
    const options = ['--noEmit', '--strict', '--target', 'es2023', '--module', 'nodenext', '--types', 'node'];
    const compiler = join(root, 'node_modules/tsc7/bin/tsc');
    try {
      await run(process.execPath, [compiler, '--ignoreConfig', ...options, 'consumer.ts'], { cwd: folder });
    } catch (error) {
      expect((error as { stdout: string }).stdout).toBe('');
      throw error;
    }
    rmSync(join(folder, 'node_modules/@types'));
  });
});

describe('a device in JavaScript', () => {
  let at: TestService;
  beforeAll(async () => {
    at = await startService();
  });
  afterAll(() => at.stop());

  it('as the console shows it carries out a command, and keeps its secret from other users of the machine', async () => {
    const owner = await at.owner();
    const device = await register(owner);
    const program = deviceProgram('JavaScript', device, { devices: page, esp32: '' });
    const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
    const env = { ...nodeEnv, PATH: path };
    const child = spawn('sh', ['-c', program], {
      cwd: folder,
      env,
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    try {
      const request = { action: 'set_brightness', params: { level: 30 } };
      const { body } = await owner.post(`/v1/device/${device.device_id}/command`, request);
      await waitForCommand(owner, body.command_id, (one) => one.verification.status === 'verified');
      expect(statSync(join(folder, 'device.mjs')).mode & 0o077).toBe(0);
    } finally {
      // The shell and the program that it runs.
      process.kill(-Number(child.pid));
    }
  });

  it('as docs/devices.md has it carries out commands, and survives rotations while it runs and while it is off', async () => {
    const owner = await at.owner();
    const device = await register(owner);
    const url = `/v1/device/${device.device_id}`;
    const keyFile = join(folder, 'light.json');
    const writeKey = (answer: unknown) => {
      writeFileSync(`${keyFile}.next`, JSON.stringify(answer));
      renameSync(`${keyFile}.next`, keyFile);
    };
    const rotate = async () => (await owner.post(`${url}/rotate-secret`, {})).body;
    const hasUsed = async (version: number): Promise<boolean> => {
      const { keys } = (await owner.get(`${url}/key-history`)).body;
      return keys.find((key: { key_version: number }) => key.key_version === version).last_used_at !== null;
    };
    const obeys = async (level: number) => {
      const { body } = await owner.post(`${url}/command`, { action: 'set_brightness', params: { level } });
      await waitForCommand(owner, body.command_id, (one) => one.verification.status === 'verified');
      expect((await owner.get(`/v1/devices/${device.device_id}`)).body.device.state).toMatchObject({
        on: true,
        brightness: level,
      });
    };
    writeKey(device);
    writeFileSync(join(folder, 'light.mjs'), codeBlock(page.slice(page.indexOf('\n## In JavaScript')), 'js'));
    const env = {
      ...nodeEnv,
      ...{ HOST: '127.0.0.1', PORT: new URL(device.mqtt_url).port, STATE_DIR: folder, KEY_FILE: keyFile },
      ...{ DEVICE_ID: device.device_id, TENANT_ID: device.tenant_id },
    };
    const start = () =>
      spawn(process.execPath, ['light.mjs'], { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] });

    let child = start();
    try {
      await eventually(() => hasUsed(1), 8_000);
      await obeys(30);
      writeKey(await rotate());
      await eventually(() => hasUsed(2), 8_000);
      await obeys(40);
      child.kill();
      await rotate();
      writeKey(await rotate());
      const request = { action: 'set_brightness', params: { level: 50 } };
      const { body: pending } = await owner.post(`${url}/command`, request);
      child = start();
      await waitForCommand(owner, pending.command_id, (one) => one.status === 'succeeded');
      expect(await hasUsed(4)).toBe(true);
      await obeys(60);
    } finally {
      child.kill();
    }
  });
});
