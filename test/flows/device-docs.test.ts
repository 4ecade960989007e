import { execFile, spawn, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { messageRefusalCodes } from '../../src/domain/refusals.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { codeBlock, readDocument, testDocument } from '../support/documented-session.ts';
import { startService, type TestService } from '../support/service.ts';

const run = promisify(execFile);
const path = 'docs/devices.md';
const page = readDocument(path);
const programs = inject('programs');
const { jq, openssl, mosquitto_pub, mosquitto_sub, 'paho-mqtt 1': paho1 } = programs;
const { 'python3-cryptography': cryptography } = programs;
const hasShellTools = [jq, openssl, mosquitto_pub, mosquitto_sub].every((path) => path !== null);
/** A virtual environment with paho-mqtt 2, which Debian 12 does not package. */
const { PAHO_2: paho2 = '' } = process.env;
const pahos = [
  { name: 'paho-mqtt 1', major: 1, python: paho1, path: '' },
  paho2 === ''
    ? {
        ...{ name: 'a stand-in for paho-mqtt 2', major: 2, python: paho1 },
        path: new URL('../support/paho-2', import.meta.url).pathname,
      }
    : { name: 'paho-mqtt 2', major: 2, python: join(paho2, 'bin/python'), path: '' },
];

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let folder: string;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  folder = mkdtempSync(join(tmpdir(), 'twinkeep-page-'));
});
afterAll(async () => {
  await at.stop();
  rmSync(folder, { recursive: true, force: true });
});

const keyFile = (device: Record<string, string>) => join(folder, `${device.device_id}.json`);

/** Replaces the file at once: the device may read it at any moment. */
function writeKey(device: Record<string, string>, answer: Record<string, unknown>): void {
  writeFileSync(`${keyFile(device)}.next`, JSON.stringify(answer));
  renameSync(`${keyFile(device)}.next`, keyFile(device));
}

const environment = (device: Record<string, string>) => ({
  PATH: process.env.PATH ?? '',
  HOST: '127.0.0.1',
  PORT: new URL(device.mqtt_url ?? '').port,
  DEVICE_ID: device.device_id ?? '',
  TENANT_ID: device.tenant_id ?? '',
  KEY_FILE: keyFile(device),
  STATE_DIR: folder,
});

function shellScript(): string {
  const script = join(folder, 'light.sh');
  writeFileSync(script, codeBlock(page.slice(page.indexOf('\n## In shell')), 'sh'));
  return script;
}

async function rotate(device: Record<string, string>): Promise<Record<string, unknown>> {
  const { status, body } = await owner.post(`/v1/device/${device.device_id}/rotate-secret`, {});
  expect(status).toBe(200);
  return body;
}

async function setBrightness(device: Record<string, string>, level: number): Promise<string> {
  const request = { action: 'set_brightness', params: { level } };
  const { status, body } = await owner.post(`/v1/device/${device.device_id}/command`, request);
  expect(status).toBe(202);
  return body.command_id;
}

/** Whether the device has used the key of this version. */
async function hasUsed(device: Record<string, string>, version: number): Promise<boolean> {
  const { body } = await owner.get(`/v1/device/${device.device_id}/key-history`);
  const key = body.keys.find((one: { key_version: number }) => one.key_version === version);
  return key.last_used_at !== null;
}

testDocument(path);

describe('the device documentation', () => {
  it('lists every code of a refused message', () => {
    const rows = page.slice(page.indexOf('| code | reason |')).matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \|/gm);
    const listed = [...rows].flatMap(([, codes = '']) => [...codes.matchAll(/`(\w+)`/g)].map(([, code]) => code));
    expect(listed).toEqual(messageRefusalCodes);
  });

  it.runIf(hasShellTools)('has a working device in shell that carries out one command per run', async () => {
    const device = await register(owner);
    writeKey(device, device);
    const script = shellScript();
    for (const [action, params, state] of [
      ['set_brightness', { level: 70 }, { on: true, brightness: 70 }],
      ['turn_off', {}, { on: false, brightness: 70 }],
    ] as const) {
      const requested = await owner.post(`/v1/device/${device.device_id}/command`, { action, params });
      expect(requested.status).toBe(202);
      const { stdout } = await run('sh', [script], { env: environment(device), timeout: 25_000 });
      expect(stdout).toContain(`did ${action}`);
      await waitForCommand(owner, requested.body.command_id, (one) => one.status === 'succeeded');
      expect((await owner.get(`/v1/devices/${device.device_id}`)).body.device.state).toEqual(state);
    }
    expect(readFileSync(join(folder, 'sequence'), 'utf8').trim()).toBe('3');
  });

  it.runIf(hasShellTools)(
    'has a device in shell that survives rotations while it waits and while it is off',
    async () => {
      const device = await register(owner);
      writeKey(device, device);
      const env = { ...environment(device), STATE_DIR: mkdtempSync(join(folder, 'rotated-')) };
      const carryOut = () => run('sh', [shellScript()], { env, timeout: 25_000 });
      const succeeds = (id: string) => waitForCommand(owner, id, (one) => one.status === 'succeeded');

      const waiting = carryOut();
      await eventually(() => hasUsed(device, 1));
      writeKey(device, await rotate(device));
      const first = await setBrightness(device, 10);
      expect((await waiting).stdout).toContain('did set_brightness');
      await succeeds(first);
      expect(await hasUsed(device, 2)).toBe(true);

      await rotate(device);
      writeKey(device, await rotate(device));
      const second = await setBrightness(device, 20);
      expect((await carryOut()).stdout).toContain('did set_brightness');
      await succeeds(second);
      expect(await hasUsed(device, 4)).toBe(true);
    },
  );

  describe.for(pahos)('with $name', ({ major, python, path }) => {
    const test = it.runIf(python !== null);
    const command = python ?? '';
    // Fails on the use of what paho-mqtt 2 deprecates.
    const settings = {
      PYTHONPATH: path,
      PYTHONWARNINGS: 'error::DeprecationWarning:__main__',
      PYTHONDONTWRITEBYTECODE: '1',
    };

    test(`is version ${major}: it ${major === 2 ? 'refuses' : 'takes'} an identifier as first argument`, () => {
      const old = 'import paho.mqtt.client as mqtt; mqtt.Client("x", clean_session=True)';
      const { status, stderr } = spawnSync(command, ['-c', old], { env: { ...process.env, ...settings } });
      expect(status).toBe(major === 2 ? 1 : 0);
      if (major === 2) expect(`${stderr}`).toContain('version 2.0 added a callback_api_version');
    });

    test('has a working device in Python that stays connected', async () => {
      const device = await register(owner);
      writeKey(device, device);
      const script = join(folder, 'light.py');
      writeFileSync(script, codeBlock(page, 'python'));
      const env = { ...environment(device), ...settings };
      const child = spawn(command, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
      try {
        const state = async () => (await owner.get(`/v1/devices/${device.device_id}`)).body.device;
        await eventually(async () => (await state()).state.brightness === 0, 20_000);
        expect((await state()).firmware).toBe('1.0.0');
        const requested = await owner.post(`/v1/device/${device.device_id}/command`, {
          action: 'set_brightness',
          params: { level: 30 },
        });
        const done = await waitForCommand(
          owner,
          requested.body.command_id,
          (one) => one.verification.status === 'verified',
        );
        expect(done.timeline.map((entry: { status: string }) => entry.status)).toContain('acknowledged');
        expect((await state()).state).toEqual({ on: true, brightness: 30 });
      } finally {
        child.kill();
      }
    });

    test('has a device in Python that writes 25.0, and survives rotations while it runs and while it is off', async () => {
      const device = await register(owner);
      writeKey(device, device);
      const script = join(folder, 'rotated.py');
      writeFileSync(script, codeBlock(page, 'python').replace('"brightness": 0}', '"brightness": 25.0}'));
      const env = { ...environment(device), ...settings };
      const start = () => spawn(command, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
      const reported = async () => (await owner.get(`/v1/devices/${device.device_id}`)).body.device.state.brightness;
      const obeys = async (level: number) => {
        const id = await setBrightness(device, level);
        await waitForCommand(owner, id, (one) => one.verification.status === 'verified');
      };
      let child = start();
      try {
        await eventually(async () => (await reported()) === 25, 8_000);
        writeKey(device, await rotate(device));
        await eventually(() => hasUsed(device, 2), 8_000);
        await obeys(30);
        child.kill();
        await rotate(device);
        writeKey(device, await rotate(device));
        // Sent when the subscription is granted, before hello_ack has the sequence number.
        const pending = await setBrightness(device, 40);
        child = start();
        await waitForCommand(owner, pending, (one) => one.status === 'succeeded');
        expect(await hasUsed(device, 4)).toBe(true);
        await obeys(50);
      } finally {
        child.kill();
      }
    });
  });

  describe.runIf(cryptography !== null)('has a device in Python with an Ed25519 key', () => {
    const script = () => {
      const file = join(folder, 'signed.py');
      writeFileSync(file, codeBlock(page.slice(page.indexOf('\n## With an Ed25519 key')), 'python'));
      return file;
    };
    const start = (device: Record<string, string>, keys: string) =>
      spawn(cryptography ?? '', [script()], {
        env: { ...environment(device), KEY_DIR: keys, PYTHONDONTWRITEBYTECODE: '1' },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
    const obeys = async (device: Record<string, string>, level: number) => {
      const id = await setBrightness(device, level);
      await waitForCommand(owner, id, (one) => one.verification.status === 'verified');
    };

    it('made by the device, that survives rotations while it runs and while it is off', async () => {
      const keys = mkdtempSync(join(folder, 'keys-'));
      const newKey = (version: number): string => {
        const { privateKey, publicKey } = generateKeyPairSync('ed25519');
        writeFileSync(join(keys, `key-${version}.pem`), privateKey.export({ type: 'pkcs8', format: 'pem' }));
        return publicKey.export({ format: 'jwk' }).x ?? '';
      };
      const device = await register(owner, { signing_alg: 'ed25519', public_key: newKey(1) });
      expect(device.device_secret).toBeNull();
      const rotateTo = async (version: number) => {
        const { status, body } = await owner.post(`/v1/device/${device.device_id}/rotate-secret`, {
          public_key: newKey(version),
        });
        expect([status, body.new_secret, body.key_version]).toEqual([200, null, version]);
        writeKey(device, { ...device, ...body });
      };
      writeKey(device, device);
      let child = start(device, keys);
      try {
        await eventually(() => hasUsed(device, 1), 8_000);
        await obeys(device, 30);
        await rotateTo(2);
        await eventually(() => hasUsed(device, 2), 8_000);
        await obeys(device, 40);
        child.kill();
        await rotateTo(3);
        await rotateTo(4);
        // Sent when the subscription is granted, before hello_ack has the sequence number.
        const pending = await setBrightness(device, 50);
        child = start(device, keys);
        await waitForCommand(owner, pending, (one) => one.status === 'succeeded');
        expect(await hasUsed(device, 4)).toBe(true);
        await obeys(device, 60);
      } finally {
        child.kill();
      }
    });

    it('made by the service, that accepts no key but those that the service announced', async () => {
      const device = await register(owner, { signing_alg: 'ed25519' });
      expect(device.cloud_public_keys).not.toEqual([]);
      const keys = mkdtempSync(join(folder, 'keys-'));
      writeKey(device, device);
      const trusting = start(device, keys);
      try {
        await eventually(() => hasUsed(device, 1), 8_000);
        await obeys(device, 20);
      } finally {
        trusting.kill();
      }
      const { publicKey } = generateKeyPairSync('ed25519');
      const wrong = mkdtempSync(join(folder, 'keys-'));
      writeFileSync(join(wrong, 'cloud-keys.json'), JSON.stringify([publicKey.export({ format: 'jwk' }).x]));
      const doubting = start(device, wrong);
      let output = '';
      doubting.stdout?.on('data', (chunk: Buffer) => (output += chunk));
      try {
        await eventually(() => output.includes('not signed with a key of the service'), 10_000);
      } finally {
        doubting.kill();
      }
    });
  });
});
