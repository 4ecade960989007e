import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const devices: Device[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
afterAll(async () => {
  await Promise.all(devices.map((device) => device.close()));
  await at.stop();
});

async function light(options: Parameters<typeof connect>[1] = {}) {
  const registered = await register(owner);
  const device = await connect(registered, {
    state: { on: false, brightness: 0 },
    commands: {
      set_brightness: ({ level }) => ({ state: { on: true, brightness: level ?? 0 } }),
      turn_on: () => ({ state: { on: true } }),
    },
    ...options,
  });
  devices.push(device);
  return { id: registered.device_id as string, registered, device };
}

/** The updates that a WebSocket client of the owner receives. */
async function watch(query: string) {
  const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${owner.token}&${query}`);
  const messages: Record<string, unknown>[] = [];
  socket.on('message', (data) => {
    if (String(data) !== 'pong') messages.push(JSON.parse(String(data)));
  });
  await waitUntilAuthorized(socket);
  return { messages, close: () => socket.close() };
}

describe('a command with the safety gateway, end to end', () => {
  it('travels from REST to the device and back as a verified state on the WebSocket', async () => {
    const { id } = await light();
    const stream = await watch(`device_id=${id}&events=state,command`);
    const answer = await owner.post(`/v1/device/${id}/command`, { action: 'set_brightness', params: { level: 40 } });
    expect(answer.status).toBe(202);
    expect(answer.body).toEqual({ success: true, command_id: expect.any(String), message_id: expect.any(String) });
    const command = await waitForCommand(
      owner,
      answer.body.command_id,
      (one) => one.verification.status === 'verified' && one.status === 'succeeded',
    );
    expect(command.timeline.map((entry: { status: string }) => entry.status)).toEqual(
      expect.arrayContaining(['dispatched', 'succeeded']),
    );
    expect(command.verification).toMatchObject({ expected: { brightness: 40 }, observed: { brightness: 40 } });
    await eventually(() =>
      stream.messages.some(
        (message) => message.type === 'state_update' && (message.state as { brightness: number }).brightness === 40,
      ),
    );
    await eventually(() =>
      stream.messages.some((message) => message.type === 'command_update' && message.verification === 'verified'),
    );
    stream.close();
    const { body } = await owner.get(`/v1/devices/${id}`);
    expect(body.device).toMatchObject({ online: true, state: { on: true, brightness: 40 } });
  });

  it('a critical action is refused with a preview, and is carried out after its confirmation', async () => {
    const registered = await register(owner, { device_type: 'smart_lock' });
    let unlocked = 0;
    const device = await connect(registered, {
      state: { locked: true },
      commands: {
        unlock: () => {
          unlocked += 1;
          return { state: { locked: false } };
        },
      },
    });
    devices.push(device);
    const path = `/v1/device/${registered.device_id}/command`;
    await eventually(
      async () => (await owner.get(`/v1/devices/${registered.device_id}`)).body.device.state.locked === true,
    );
    const refused = await owner.post(path, { action: 'unlock' });
    expect(refused.status).toBe(409);
    expect(refused.headers.get('content-type')).toMatch('application/json');
    expect(refused.body).toMatchObject({
      status: 'dry_run_required',
      code: 'DRY_RUN_REQUIRED',
      preview: {
        current: { locked: true },
        expected: { locked: false },
        changes: { locked: { from: true, to: false } },
      },
    });
    expect(unlocked).toBe(0);
    const confirmed = await owner.post(`${path}/confirm`, { dry_run_token: refused.body.dry_run_token });
    expect(confirmed.status).toBe(202);
    await waitForCommand(
      owner,
      confirmed.body.command_id,
      (one) => one.status === 'succeeded' && one.verification.status === 'verified',
    );
    expect(unlocked).toBe(1);
    const again = await owner.post(`${path}/confirm`, { dry_run_token: refused.body.dry_run_token });
    expect([again.status, again.body.code]).toEqual([403, 'CONFIRMATION_FAILED']);
  });

  it('for an offline device waits, is sent when the device connects, and expires when it does not', async () => {
    const registered = await register(owner);
    const path = `/v1/device/${registered.device_id}/command`;
    const waiting = await owner.post(path, { action: 'turn_on', ttl_s: 120 });
    const doomed = await owner.post(path, { action: 'turn_on', ttl_s: 1 });
    at.clock.advance(1_500);
    await waitForCommand(owner, doomed.body.command_id, (one) => one.status === 'expired');
    const device = await connect(registered, { commands: { turn_on: () => ({ state: { on: true } }) } });
    devices.push(device);
    const done = await waitForCommand(owner, waiting.body.command_id, (one) => one.status === 'succeeded');
    expect(done.late).toBeFalsy();
  });

  it('that the device does not acknowledge times out, and a late acknowledgement still counts', async () => {
    let send: () => void = () => {};
    const { id } = await light({
      commands: {
        turn_on: () =>
          new Promise((resolve) => {
            send = () => resolve({ state: { on: true } });
          }),
      },
    });
    const { body } = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on', timeout_s: 5 });
    await waitForCommand(owner, body.command_id, (one) => one.status === 'acknowledged');
    at.clock.advance(5_500);
    await waitForCommand(owner, body.command_id, (one) => one.status === 'timed_out');
    send();
    const late = await waitForCommand(owner, body.command_id, (one) => one.status === 'succeeded');
    expect(late.late).toBe(true);
  });

  it('ends when the device is revoked, whose session ends at once', async () => {
    const { id, device } = await light({ commands: { turn_on: () => new Promise(() => {}) } });
    const { body } = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on' });
    await waitForCommand(owner, body.command_id, (one) => one.status === 'acknowledged');
    const revoked = await owner.post(`/v1/device/${id}/revoke`);
    expect(revoked.body).toEqual({ device_id: id, status: 'revoked' });
    await waitForCommand(owner, body.command_id, (one) => one.status === 'timed_out');
    await eventually(() => !device.online);
    const after = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on' });
    expect([after.status, after.body.code]).toEqual([403, 'DEVICE_REVOKED']);
    await device.close();
  });

  it('the old key still verifies for 24 hours after rotation, and no longer a minute after that', async () => {
    const { id, registered, device } = await light();
    const rotated = await owner.post(`/v1/device/${id}/rotate-secret`);
    expect(rotated.body).toMatchObject({ device_id: id, key_version: 2, new_secret: expect.any(String) });
    await device.report({ on: true });
    await device.close();
    const old = await connect(registered, {});
    expect(old.online).toBe(true);
    at.clock.advance(24 * 3_600_000 - 60_000);
    await new Promise((resolve) => setImmediate(resolve));
    at.clock.advance(61_000);
    await eventually(() => !old.online);
    await old.close();
    const { body } = await owner.get(`/v1/device/${id}/key-history`);
    expect(body.keys.map((key: { key_version: number; status: string }) => [key.key_version, key.status])).toEqual(
      expect.arrayContaining([
        [1, 'retired'],
        [2, 'active'],
      ]),
    );
  });
});
