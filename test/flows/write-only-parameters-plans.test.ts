import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import { eventually } from '../support/clock.ts';
import { connect, register } from '../support/device.ts';
import { type ApiResponse, startService, type TestService } from '../support/service.ts';

/*
 * A manifest that changes which parameters are `writeOnly` while a plan waits neither shows nor stores their values.
 */

const PIN = 'PIN-5180-canary';
const MASK = { write_only: true };

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let lock: ApiResponse['body'];
let keypad: ApiResponse['body'];
const devices: Device[] = [];
const executed: Json[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
});
beforeEach(async () => {
  lock = await register(owner, { device_type: 'smart_lock' });
  keypad = await register(owner, { device_type: 'keypad' });
  const lockOptions = { state: { locked: true }, commands: { unlock: () => ({ state: { locked: false } }) } };
  devices.push(await connect({ ...lock, mqtt_url: at.service.mqttUrl() }, lockOptions));
  const open = (params: Json) => {
    executed.push(params);
    return {};
  };
  const jam = () => {
    throw new Error('it is stuck');
  };
  const keypadOptions = { commands: { set_code: open, wave: () => ({}), jam } };
  devices.push(await connect({ ...keypad, mqtt_url: at.service.mqttUrl() }, keypadOptions));
});
afterEach(async () => {
  await Promise.all(devices.splice(0).map((device) => device.close(0)));
  executed.length = 0;
});
afterAll(() => at?.stop());

const setCode = (writeOnly: boolean, more: object = {}) => ({
  capabilities: [
    {
      action: 'set_code',
      paramSchema: { type: 'object', properties: { code: { type: 'string', ...(writeOnly && { writeOnly }) } } },
      ...more,
    },
    { action: 'wave' },
    { action: 'jam' },
  ],
});

async function publish(manifest: JsonObject): Promise<void> {
  const path = `/v1/devices/${keypad.device_id}/manifest`;
  const now = await owner.get(path);
  const { status, body } =
    now.status === 404
      ? await owner.post(path, manifest)
      : await owner.put(path, { ...manifest, version: now.body.version });
  if (status < 300) return;
  expect(status).toBe(409);
  expect((await owner.post(`/v1/change-requests/${body.change_id}/approve`, {})).status).toBe(200);
}

/** A plan whose first step waits for the confirmation of `unlock`. */
async function startPlan(...steps: JsonObject[]): Promise<string> {
  const gate = { id: 'gate', device_id: lock.device_id, action: 'unlock' };
  const { status, body } = await owner.post('/v1/plans', { steps: [gate, ...steps] });
  expect([status, body.detail]).toEqual([202, undefined]);
  return body.plan.id;
}

const planOf = async (id: string) => (await owner.get(`/v1/plans/${id}`)).body.plan;

async function approve(planId: string, action: string): Promise<ApiResponse['body']> {
  const waiting = await eventually(async () => {
    const { confirmations } = (await owner.get('/v1/confirmations')).body;
    return confirmations.find((one: JsonObject) => one.plan_id === planId && one.action === action);
  });
  const approved = await owner.post(`/v1/confirmations/${waiting.command_id}/approve`, {});
  expect([approved.status, approved.body.detail]).toEqual([202, undefined]);
  return waiting;
}

const ended = (planId: string) =>
  eventually(async () => {
    const plan = await planOf(planId);
    return ['succeeded', 'failed', 'rolled_back', 'rollback_failed'].includes(plan.status) ? plan : null;
  });

it('a step whose parameters are no longer marked is refused, and its values stay sealed', async () => {
  await publish(setCode(true));
  const step = { id: 'code', device_id: keypad.device_id, action: 'set_code', params: { code: PIN } };
  const id = await startPlan({ ...step, depends_on: ['gate'] });
  await publish(setCode(false, { expectedState: { code: { $param: 'code' } } }));
  await approve(id, 'unlock');
  const plan = await ended(id);
  const code = plan.steps.find((one: JsonObject) => one.id === 'code');
  expect(code).toMatchObject({ status: 'failed', params: { code: MASK }, error: { code: 'PARAMS_INVALID' } });
  expect(code.error.detail).toContain('write-only');
  const commands = await owner.get(`/v1/device/${keypad.device_id}/commands`);
  expect(commands.body.commands).toEqual([]);
  expect(executed).toEqual([]);
  const stored = await owner.get(`/v1/actors/plan/${id}`);
  expect(JSON.stringify([plan, stored.body])).not.toContain(PIN);
});

it('the parameters of a critical compensation that are marked later are not stored with commands, and its approval counts', async () => {
  const critical = { safetyClass: 'CRITICAL' };
  await publish(setCode(false, critical));
  const compensation = { action: 'set_code', params: { code: PIN } };
  const id = await startPlan(
    { id: 'wave', device_id: keypad.device_id, action: 'wave', depends_on: ['gate'], compensation },
    { id: 'jam', device_id: keypad.device_id, action: 'jam', depends_on: ['wave'] },
  );
  await publish(setCode(true, critical));
  await approve(id, 'unlock');
  const waiting = await approve(id, 'wave');
  expect(waiting.compensation).toEqual({ action: 'set_code', params: { code: MASK } });
  const plan = await ended(id);
  expect(plan.steps.map(({ id, status }: JsonObject) => [id, status])).toContainEqual(['wave', 'compensated']);
  expect(executed).toEqual([{ code: PIN }]);
  const { commands } = (await owner.get(`/v1/device/${keypad.device_id}/commands`)).body;
  expect(commands.map(({ action }: JsonObject) => action).sort()).toEqual(['jam', 'set_code', 'wave']);
  for (const command of commands) {
    const stored = await owner.get(`/v1/actors/command/${command.id}`);
    expect(stored.status).toBe(200);
    expect(JSON.stringify([command, stored.body])).not.toContain(PIN);
  }
});
