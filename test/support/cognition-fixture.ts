import { expect } from 'vitest';
import type { Outcome, RefusalCode } from '../../src/domain/refusals.ts';
import { eventually } from './clock.ts';
import { type FakeSidecar, installFakeSidecar } from './fake-sidecar.ts';
import type { CallOptions, CallResult, HttpService, HttpServiceOptions } from './http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from './test-tenant.ts';

type Body = CallResult['body'];

/** A service with a fake sidecar, and common operations of tests. */
export interface CognitionFixture {
  service: HttpService;
  sidecar: FakeSidecar;
  tenant: TestTenant;
  otherTenant: TestTenant;
  addLight(tenancy?: TestTenant): Promise<string>;
  submitGoal(text: string, more?: object, sent?: CallOptions): Promise<string>;
  observe(deviceId: string, more?: object): Promise<string>;
  plan(id: string): Promise<Body>;
  waitForPlan(id: string, check: (plan: Body) => unknown): Promise<Body>;
  proposal(id: string): Promise<Body>;
  /** Id of the step's command, once the step runs. */
  waitForStepCommand(id: string, stepId: string): Promise<string>;
  executeCommand(deviceId: string, commandId: string, isOn: boolean): Promise<void>;
  advanceClock(ms: number): Promise<void>;
}

export const turnOn = (id: string, device_id: string, more: object = {}) => ({
  ...{ id, device_id, action: 'turn_on', compensation: { action: 'turn_off' } },
  ...more,
});

export const expectRefusal = (outcome: Outcome<unknown>, code: RefusalCode): void =>
  expect(outcome.ok ? 'taken' : outcome.refusal.code).toBe(code);

/** Value of a successful outcome; throws for a refusal. */
export function unwrap<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.refusal.code}: ${outcome.refusal.detail}`);
  return outcome.value;
}

export async function startCognitionFixture(options: HttpServiceOptions = {}): Promise<CognitionFixture> {
  const service = await startHttpServiceOnDatabase(options);
  const sidecar = installFakeSidecar(service.services);
  const tenant = await makeTestTenant(service);
  const otherTenant = await makeTestTenant(service);
  const plan: CognitionFixture['plan'] = async (id) => (await tenant.call('GET', `/plans/${id}`)).body.plan;
  const waitForPlan: CognitionFixture['waitForPlan'] = (id, check) =>
    eventually(async () => {
      const now = await plan(id);
      return check(now) ? now : null;
    });
  const stepOf = (one: Body, id: string): Body => one.steps.find((step: Body) => step.id === id);
  return {
    ...{ service, sidecar, tenant, otherTenant, plan, waitForPlan },
    async addLight(tenancy = tenant) {
      const { device_id } = await tenancy.register();
      await tenancy.connect(device_id);
      return device_id;
    },
    async submitGoal(text, more = {}, sent) {
      const { status, body } = await tenant.call('POST', '/intent', { type: 'goal', payload: { text, ...more } }, sent);
      expect([status, body]).toEqual([200, body]);
      return body.plan_id;
    },
    async observe(device_id, more = {}) {
      const observation = { device_id, data: { humidity: 81 }, ...more };
      const { status, body } = await tenant.call('POST', '/cognition/observation', observation);
      expect([status, body]).toEqual([202, { status: 'OBSERVATION_RECEIVED', proposal_id: expect.any(String) }]);
      return body.proposal_id;
    },
    proposal: async (id) => (await tenant.call('GET', `/cognition/proposals/${id}`)).body.proposal,
    waitForStepCommand: (id, stepId) =>
      waitForPlan(id, (now) => stepOf(now, stepId)?.status === 'running').then((now) => stepOf(now, stepId).command_id),
    async executeCommand(deviceId, commandId, isOn) {
      await tenant.report(deviceId, { on: isOn });
      await tenant.acknowledge(deviceId, commandId, 'succeeded');
    },
    async advanceClock(ms) {
      service.clock.advance(ms);
      await service.runtime.timers.tick();
    },
  };
}
