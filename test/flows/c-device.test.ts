import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { compileC, coreFolder, coreSources, sanitizerFlags, strictFlags } from '../support/c-core.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

/* The examples of the core in C: the light with Paho against the service, the one for the ESP32 compiled alone. */

const { gcc, 'paho-mqtt for C': paho } = inject('programs');
const examples = join(coreFolder, 'examples');

const isVerified = (command: { status: string; verification: { status: string } }): boolean =>
  command.status === 'succeeded' && command.verification.status === 'verified';

describe.runIf(gcc !== null && paho !== null)('the light in C with Paho', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let folder: string;
  let program: string;
  let proxy: TcpProxy | undefined;
  let child: ChildProcess | undefined;
  let errors = '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'twinkeep-c-device-'));
    program = join(folder, 'light');
    const source = join(examples, 'paho/light.c');
    const flags = [...strictFlags, ...sanitizerFlags, `-I${coreFolder}`];
    [at] = await Promise.all([
      startService(),
      compileC(gcc ?? '', [...flags, '-o', program, source, ...coreSources(), '-lpaho-mqtt3c']),
    ]);
    owner = await at.owner();
  });
  afterAll(async () => {
    child?.kill();
    await proxy?.close();
    await at.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('signs in, reports, carries out commands, and survives a lost connection and rotations', async () => {
    const device = await register(owner);
    const url = `/v1/device/${device.device_id}`;
    proxy = await startTcpProxy(device.mqtt_url);
    const keyFile = join(folder, 'light.json');
    const writeKey = (answer: unknown) => {
      writeFileSync(`${keyFile}.next`, JSON.stringify(answer));
      renameSync(`${keyFile}.next`, keyFile);
    };
    const rotate = async () => (await owner.post(`${url}/rotate-secret`, {})).body;
    const view = async () => (await owner.get(`/v1/devices/${device.device_id}`)).body.device;
    const hasUsed = async (version: number): Promise<boolean> => {
      const { keys } = (await owner.get(`${url}/key-history`)).body;
      return keys.find((key: { key_version: number }) => key.key_version === version).last_used_at !== null;
    };
    const request = async (action: string, params: Record<string, unknown>) => {
      const { body, status } = await owner.post(`${url}/command`, { action, params });
      expect(status).toBe(202);
      return body.command_id as string;
    };
    const obeys = async (level: number) => {
      const id = await request('set_brightness', { level });
      const done = await waitForCommand(owner, id, isVerified);
      expect(done.timeline.map((entry: { status: string }) => entry.status)).toContain('acknowledged');
      expect((await view()).state).toEqual({ on: true, brightness: level });
    };
    const start = () => {
      const env = {
        ...{ HOST: '127.0.0.1', PORT: `${proxy?.port}`, KEY_FILE: keyFile },
        ...{ DEVICE_ID: device.device_id, TENANT_ID: device.tenant_id },
      };
      const started = spawn(program, { env, stdio: ['ignore', 'ignore', 'pipe'] });
      started.stderr.on('data', (chunk: Buffer) => (errors += chunk));
      return started;
    };

    writeKey(device);
    child = start();
    await eventually(async () => (await view()).state.brightness === 0, 10_000);
    expect(await view()).toMatchObject({ firmware: '1.0.0', state: { on: false, brightness: 0 } });
    await obeys(30);
    const unknown = await request('toggle', {});
    const failed = await waitForCommand(owner, unknown, (one) => one.status === 'failed');
    expect(JSON.stringify(failed.error)).toContain('unknown action');

    proxy.cut();
    await eventually(() => (proxy?.blocked() ?? 0) > 0, 8_000);
    proxy.restore();
    await obeys(40);

    writeKey(await rotate());
    await eventually(() => hasUsed(2), 8_000);
    await obeys(50);

    const ended = new Promise<number | null>((resolve) => child?.once('close', resolve));
    child.kill('SIGTERM');
    expect(await ended).toBe(0);
    await rotate();
    writeKey(await rotate());
    // Sent when the subscription is granted, before the answer to hello has the sequence number.
    const pending = await request('set_brightness', { level: 60 });
    child = start();
    await waitForCommand(owner, pending, isVerified);
    expect(await hasUsed(4)).toBe(true);
    await obeys(70);
    expect(errors).not.toMatch(/Sanitizer|runtime error|ignored|refused/);
  });
});

describe.runIf(gcc !== null)('the light in C for the ESP32', () => {
  it('compiles without a warning against declarations of ESP-IDF', async () => {
    const declarations = fileURLToPath(new URL('../devices/c/esp-idf', import.meta.url));
    const flags = [
      '-std=gnu11',
      '-Wall',
      '-Wextra',
      '-Werror',
      '-fsyntax-only',
      `-I${declarations}`,
      `-I${coreFolder}`,
    ];
    await compileC(gcc ?? '', [...flags, join(examples, 'esp32/main/main.c')]);
  });
});
