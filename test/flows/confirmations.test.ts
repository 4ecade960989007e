import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';

/** Collects the updates of a WebSocket client of `caller`; resolves once the client is admitted. */
async function listen(url: string, caller: ApiClient, query: string) {
  const { body } = await caller.post('/ws/ticket');
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws/state?token=${body.ticket}&${query}`);
  const texts: string[] = [];
  socket.on('message', (data) => texts.push(String(data)));
  socket.once('open', () => socket.send('ping'));
  await eventually(() => texts.includes('pong'));
  const received = () =>
    texts.filter((text) => text !== 'pong').map((text) => JSON.parse(text) as Record<string, unknown>);
  return {
    waitFor: (count: number) => eventually(() => (received().length >= count ? received() : null)),
    received,
    close: () => socket.close(),
  };
}

describe('a pending confirmation', () => {
  let at: TestService;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let lock: ApiResponse['body'];
  let device: Device;
  let unlocked = 0;
  beforeAll(async () => {
    at = await startService();
    owner = await at.owner();
    lock = await register(owner, { device_type: 'smart_lock' });
    device = await connect(lock, {
      state: { locked: true },
      commands: {
        unlock: () => {
          unlocked += 1;
          return { state: { locked: false } };
        },
      },
    });
    await eventually(async () => (await owner.get(`/v1/devices/${lock.device_id}`)).body.device.state.locked === true);
  });
  afterAll(async () => {
    await device.close();
    await at.stop();
  });

  const unlock = async () => (await owner.post(`/v1/device/${lock.device_id}/command`, { action: 'unlock' })).body;
  const statuses = (received: Record<string, unknown>[]) => received.map(({ status }) => status);

  it('is reported on the WebSocket when it is requested and when it is approved; the device acts once', async () => {
    const client = await listen(at.url, owner, 'events=confirmation');
    const requested = await unlock();
    const [begun] = await client.waitFor(1);
    expect(begun).toEqual({
      type: 'confirmation_update',
      command_id: requested.command_id,
      device_id: lock.device_id,
      status: 'awaiting_confirmation',
      expires_at: Date.parse(requested.expires_at),
      timestamp: expect.any(Number),
    });
    expect((await owner.get('/v1/confirmations')).body.confirmations).toMatchObject([
      { command_id: requested.command_id, preview: { changes: { locked: { from: true, to: false } } } },
    ]);
    expect(unlocked).toBe(0);
    expect((await owner.post(`/v1/confirmations/${requested.command_id}/approve`)).status).toBe(202);
    const received = await client.waitFor(2);
    expect(received[1]).toMatchObject({
      command_id: requested.command_id,
      status: 'dispatched',
      expires_at: begun?.expires_at,
    });
    await waitForCommand(owner, requested.command_id, ({ status }) => status === 'succeeded');
    expect((await owner.post(`/v1/confirmations/${requested.command_id}/approve`)).status).toBe(409);
    expect([unlocked, client.received().length]).toEqual([1, 2]);
    client.close();
  });

  it('is reported too when it is refused, cancelled, confirmed by token, or expired', async () => {
    const client = await listen(at.url, owner, `events=confirmation&device_id=${lock.device_id}`);
    const refused = await unlock();
    await owner.post(`/v1/confirmations/${refused.command_id}/refuse`, { reason: 'no' });
    const cancelled = await unlock();
    await owner.post(`/v1/commands/${cancelled.command_id}/cancel`);
    const confirmed = await unlock();
    await owner.post(`/v1/device/${lock.device_id}/command/confirm`, { dry_run_token: confirmed.dry_run_token });
    const expired = await unlock();
    at.clock.advance(300_000);
    const received = await client.waitFor(8);
    expect(statuses(received)).toEqual([
      ...['awaiting_confirmation', 'cancelled', 'awaiting_confirmation', 'cancelled'],
      ...['awaiting_confirmation', 'dispatched', 'awaiting_confirmation', 'expired'],
    ]);
    expect(received.at(-1)).toMatchObject({
      command_id: expired.command_id,
      expires_at: Date.parse(expired.expires_at),
    });
    client.close();
  });

  it('is not reported to another tenant, to a listener for another device, or without the event kind', async () => {
    const outsider = await at.owner();
    const foreign = await listen(at.url, outsider, `events=confirmation&device_id=${lock.device_id}`);
    const narrow = await listen(at.url, owner, `events=confirmation&device_id=${outsider.homeId}`);
    const states = await listen(at.url, owner, 'events=state,presence,command');
    const mine = await listen(at.url, owner, 'events=confirmation');
    const { command_id } = await unlock();
    await owner.post(`/v1/confirmations/${command_id}/refuse`);
    await mine.waitFor(2);
    await states.waitFor(2);
    expect([foreign.received(), narrow.received()]).toEqual([[], []]);
    expect(states.received().some(({ type }) => type === 'confirmation_update')).toBe(false);
    for (const client of [foreign, narrow, states, mine]) client.close();
  });

  it('ends when its device is revoked', async () => {
    const other = await register(owner, { device_type: 'smart_lock' });
    const client = await listen(at.url, owner, 'events=confirmation');
    const { body } = await owner.post(`/v1/device/${other.device_id}/command`, { action: 'unlock' });
    await owner.post(`/v1/device/${other.device_id}/revoke`);
    expect(statuses(await client.waitFor(2))).toEqual(['awaiting_confirmation', 'cancelled']);
    expect((await owner.post(`/v1/confirmations/${body.command_id}/approve`)).body.code).toBe('DEVICE_REVOKED');
    client.close();
  });
});

oneDeployment('a pending confirmation after a restart', (deployment) => {
  it('keeps its deadline, requester and policy; the device gets the command after approval', async () => {
    let at = await startService(deployment().env);
    const owner = await at.owner('owner');
    const lock = await register(owner, { device_type: 'smart_lock' });
    const { body } = await owner.patch('/v1/tenant/policy', { confirm_by: 'person', confirm_ttl_s: 3_600 });
    expect((await owner.post(`/v1/change-requests/${body.change_id}/approve`)).status).toBe(200);
    const command = `/v1/device/${lock.device_id}/command`;
    const requested = (await owner.post(command, { action: 'unlock' })).body;
    const doomed = (await owner.post(command, { action: 'unlock' })).body;
    await at.stop();

    const before = at.clock;
    at = await startService(deployment().env, { clock: before });
    const again = at.api(owner.token);
    expect((await again.get('/v1/tenant/policy')).body.policy).toEqual({
      ...{ confirm_by: 'person', agent_confirm_by: 'person', confirm_ttl_s: 3_600 },
    });
    const { confirmations } = (await again.get('/v1/confirmations')).body;
    expect(confirmations).toMatchObject([
      { command_id: doomed.command_id, expires_at: doomed.expires_at },
      { command_id: requested.command_id, requested_by: owner.userId },
    ]);
    let unlocked = 0;
    const device = await connect(
      { ...lock, mqtt_url: at.service.mqttUrl() },
      {
        state: { locked: true },
        commands: {
          unlock: () => {
            unlocked += 1;
            return { state: { locked: false } };
          },
        },
      },
    );
    // The device has reported its state since the request: the approval is of the new preview.
    const { preview_hash } = await eventually(async () => {
      const { confirmations: listed } = (await again.get('/v1/confirmations')).body;
      return listed.find(
        ({ command_id, preview }: { command_id: string; preview: { current: { locked?: boolean } } }) =>
          command_id === requested.command_id && preview.current.locked === true,
      );
    });
    const approval = `/v1/confirmations/${requested.command_id}/approve`;
    expect((await again.post(approval)).status).toBe(409);
    expect((await again.post(approval, { preview_hash })).status).toBe(202);
    await waitForCommand(again, requested.command_id, ({ status }) => status === 'succeeded');
    at.clock.advance(3_600_000);
    await waitForCommand(again, doomed.command_id, ({ status }) => status === 'expired');
    expect(unlocked).toBe(1);
    await device.close();
    await at.stop();
  });
});
