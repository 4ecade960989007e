import { afterAll, beforeAll, expect } from 'vitest';
import { eventually } from '../../../support/clock.ts';
import type { CallOptions, CallResult, HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

export let service: HttpService;
export let mine: TestTenant;
export let other: TestTenant;

/** Starts a service with two tenants before the tests of the file. */
export function withPlanService(): void {
  beforeAll(async () => {
    service = await startHttpServiceOnDatabase();
    mine = await makeTestTenant(service);
    other = await makeTestTenant(service);
  });
  afterAll(() => service.close());
}

export type Body = CallResult['body'];
export const light = async (tenancy = mine) => {
  const { device_id } = await tenancy.register();
  await tenancy.connect(device_id);
  return device_id;
};
export const lock = async () => {
  const { device_id } = await mine.register({ device_type: 'smart_lock' });
  await mine.connect(device_id);
  return device_id;
};
export const on = (id: string, device_id: string, more: object = {}) => ({
  ...{ id, device_id, action: 'turn_on', compensation: { action: 'turn_off' } },
  ...more,
});
export const post = (steps: object[], more: object = {}, sent?: CallOptions) =>
  mine.call('POST', '/plans', { steps, ...more }, sent);
export const get = async (id: string): Promise<Body> => (await mine.call('GET', `/plans/${id}`)).body.plan;
export const run = async (steps: object[], more: object = {}, sent?: CallOptions): Promise<string> => {
  const { status, body } = await post(steps, more, sent);
  expect([status, body]).toEqual([202, body]);
  return body.plan.id;
};
export const until = (id: string, check: (plan: Body) => unknown) =>
  eventually(async () => {
    const plan = await get(id);
    return check(plan) ? plan : null;
  });
export const step = (plan: Body, id: string): Body => plan.steps.find((one: Body) => one.id === id);
export const running = (id: string, stepId: string) =>
  until(id, (plan) => step(plan, stepId).status === 'running').then((plan) => step(plan, stepId).command_id as string);
/** The last command of the device. */
export const lastCommand = async (deviceId: string): Promise<Body> =>
  (await mine.call('GET', `/device/${deviceId}/commands?limit=1`)).body.commands[0];
export const undoing = (id: string, stepId: string, deviceId: string) =>
  until(id, (plan) => step(plan, stepId).status === 'compensating').then((plan) =>
    eventually(async () => {
      const { action } = step(plan, stepId).compensation;
      const { commands } = (await mine.call('GET', `/device/${deviceId}/commands`)).body;
      return commands.find((one: Body) => one.action === action)?.id as string | undefined;
    }),
  );
export const does = async (deviceId: string, commandId: string, isOn: boolean) => {
  await mine.report(deviceId, { on: isOn });
  await mine.acknowledge(deviceId, commandId, 'succeeded');
};
export const tick = async (ms: number) => {
  service.clock.advance(ms);
  await service.runtime.timers.tick();
};
export const none = {
  maintenance_mode: false,
  registration_lock: false,
  commands_disabled: false,
  cognition_disabled: false,
};
