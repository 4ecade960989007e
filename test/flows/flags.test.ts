import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Device } from '../../src/device/device.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { eventually } from '../support/clock.ts';
import { makePostgresDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';
import { waitUntilAuthorized } from '../support/wait-until-authorized.ts';

const operatorOf = async (at: TestService): Promise<ApiClient> =>
  at.api(await at.token('operator', { scope: PLATFORM_SCOPE }));

describe('a flag', () => {
  let at: TestService;
  let operator: ApiClient;
  let owner: Awaited<ReturnType<TestService['owner']>>;
  let registered: ApiResponse['body'];
  let device: Device;
  let path: string;

  const set = async (flag: string, state: boolean) => {
    const { status } = await operator.post(`/v1/admin/flags/${flag}`, { state });
    expect(status).toBe(200);
  };

  beforeAll(async () => {
    at = await startService({ RATE_LIMITS: 'free=0' });
    operator = await operatorOf(at);
    owner = await at.owner();
    registered = await register(owner);
    device = await connect(registered, { commands: { turn_on: () => ({ state: { on: true } }) } });
    path = `/v1/device/${registered.device_id}/command`;
  });
  afterEach(async () => {
    for (const flag of ['maintenance_mode', 'registration_lock', 'commands_disabled']) await set(flag, false);
  });
  afterAll(async () => {
    await device.close(0);
    await at.stop();
  });

  it('maintenance_mode refuses changes by users only: devices can report, and users can read and subscribe', async () => {
    const late = await register(owner);
    const waiting = await owner.post(`/v1/device/${late.device_id}/command`, { action: 'turn_on' });
    await set('maintenance_mode', true);

    const { body: ticket, status } = await owner.post('/ws/ticket');
    expect(status).toBe(201);
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${ticket.ticket}`);
    const received: string[] = [];
    socket.on('message', (data) => received.push(String(data)));
    await waitUntilAuthorized(socket);
    expect(await device.report({ brightness: 12 })).toBe(true);
    await eventually(() => received.some((text) => text.includes('"brightness":12')));
    socket.terminate();
    device.reconnect('a walk under maintenance');
    await eventually(() => device.online);

    const refused = { status: 503, body: { code: 'MAINTENANCE' } };
    expect(await owner.post(path, { action: 'turn_on' })).toMatchObject(refused);
    expect(await owner.post('/v1/homes', { home_name: 'Second' })).toMatchObject(refused);
    expect(await owner.patch(`/v1/devices/${late.device_id}`, { name: 'x' })).toMatchObject(refused);
    expect(await owner.delete(`/v1/homes/${owner.homeId}`)).toMatchObject(refused);
    const plan = { steps: [{ id: 'on', device_id: registered.device_id, action: 'turn_on' }] };
    expect(await owner.post('/v1/plans', plan)).toMatchObject(refused);
    expect(await owner.post('/v1/plans', { ...plan, dry_run: true })).toMatchObject({
      ...{ status: 200, body: { steps: [{ id: 'on', verdict: 'MAINTENANCE', preview: { expected: { on: true } } }] } },
    });

    const outsider = at.api(await at.token('stranger'));
    expect((await outsider.get('/v1/auth/me')).body).toMatchObject({ has_tenant: false });
    const check = { device_type: 'smart_light', current_version: '1.0.0' };
    expect((await owner.post('/v1/firmware/check', check)).status).toBe(200);
    expect((await owner.post(`/v1/commands/${waiting.body.command_id}/cancel`)).status).toBe(200);
    expect((await owner.post(`/v1/device/${late.device_id}/revoke`)).status).toBe(200);
    expect((await at.api().get('/health')).status).toBe(200);
    expect((await outsider.post('/v1/auth/logout')).status).toBe(200);
  });

  it('commands_disabled refuses commands and their confirmation, and records them in the history', async () => {
    const dry = await owner.post(path, { action: 'turn_on', dry_run: true });
    await set('commands_disabled', true);
    const refused = { status: 503, body: { code: 'COMMANDS_DISABLED' } };
    const command = await owner.post(path, { action: 'turn_on' });
    expect(command).toMatchObject(refused);
    expect(Number(command.headers.get('retry-after'))).toBeGreaterThan(0);
    const { dry_run_token } = dry.body;
    expect(await owner.post(`${path}/confirm`, { dry_run_token })).toMatchObject(refused);
    const history = (await owner.get(`${path}s`)).body.commands;
    expect(history[0]).toMatchObject({ status: 'rejected' });
    expect((await owner.post('/v1/homes', { home_name: 'Third' })).status).toBe(201);

    await set('commands_disabled', false);
    expect((await owner.post(`${path}/confirm`, { dry_run_token })).status).toBe(202);
    await waitForCommand(owner, dry.body.command_id, (shown) => shown.status === 'succeeded');
  });

  it('registration_lock refuses registrations of tenants and devices', async () => {
    await set('registration_lock', true);
    const refused = { status: 503, body: { code: 'REGISTRATION_LOCKED' } };
    const requested = { device_type: 'smart_light', home_id: owner.homeId };
    expect(await owner.post('/v1/device/register', requested)).toMatchObject(refused);
    const newUser = at.api(await at.token('newcomer'));
    expect(await newUser.post('/v1/tenant/register', { tenant_name: 'New' })).toMatchObject(refused);
    expect((await owner.post(path, { action: 'turn_on' })).status).toBe(202);
  });

  it('does not affect the list of tenants, whose Link header leads to the next page', async () => {
    await at.owner('somebody else');
    await set('maintenance_mode', true);
    const first = await operator.get('/v1/admin/tenants?limit=1');
    const [, link = ''] = /^<(.+)>; rel="next"$/.exec(first.headers.get('link') ?? '') ?? [];
    expect(link.startsWith(`${at.url}/v1/admin/tenants?limit=1&cursor=`)).toBe(true);
    const second = await fetch(link, { headers: { authorization: `Bearer ${operator.token}` } });
    const [next] = (await second.json()) as { id: string }[];
    expect(next?.id).toBe(owner.tenantId);
  });

  it('that was set before a restart is set after it', async () => {
    await set('maintenance_mode', true);
    const { dataDir } = at;
    await at.service.stop();
    at = await startService({ DATA_DIR: dataDir, RATE_LIMITS: 'free=0' });
    operator = await operatorOf(at);
    owner = { ...owner, ...at.api(owner.token) };
    expect((await owner.post('/v1/homes', { home_name: 'Fourth' })).body.code).toBe('MAINTENANCE');
  });
});

describe.runIf(inject('postgresUrl'))('two processes', () => {
  it('the flags set at the active process apply at the one that takes over', async () => {
    const deployment = await makePostgresDeployment();
    if (deployment === null) throw new Error('there is PostgreSQL');
    const one = await startService(deployment.env);
    const two = await startService(deployment.env, { standsBy: true });
    const operator = await operatorOf(one);
    await operator.post('/v1/admin/flags/registration_lock', { state: true });
    await one.service.stop();
    await two.service.active;
    const { body } = await two.api(operator.token).get('/v1/admin/flags');
    expect(body.flags).toMatchObject({ registration_lock: true, maintenance_mode: false });
    await two.service.stop();
    await deployment.remove();
  });
});
