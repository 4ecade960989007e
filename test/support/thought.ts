import { expect } from 'vitest';
import type { Outcome, RefusalCode } from '../../src/domain/refusals.ts';
import { eventually } from './clock.ts';
import type { House, Received, Sent } from './house.ts';
import { type StandIn, standIn } from './stand-in-sidecar.ts';
import { makeTenancy, openHouse, type Tenancy } from './tenancy.ts';

type Body = Received['body'];

/** A service with a sidecar that stands in for a real one, and what tests of it say again and again. */
export interface Thought {
  house: House;
  sidecar: StandIn;
  mine: Tenancy;
  other: Tenancy;
  light(tenancy?: Tenancy): Promise<string>;
  goal(text: string, more?: object, sent?: Sent): Promise<string>;
  observe(deviceId: string, more?: object): Promise<string>;
  plan(id: string): Promise<Body>;
  until(id: string, check: (plan: Body) => unknown): Promise<Body>;
  proposal(id: string): Promise<Body>;
  /** The step's command, once it runs. */
  running(id: string, stepId: string): Promise<string>;
  does(deviceId: string, commandId: string, isOn: boolean): Promise<void>;
  tick(ms: number): Promise<void>;
}

export const turnOn = (id: string, device_id: string, more: object = {}) => ({
  ...{ id, device_id, action: 'turn_on', compensation: { action: 'turn_off' } },
  ...more,
});

export const refusedWith = (outcome: Outcome<unknown>, code: RefusalCode): void =>
  expect(outcome.ok ? 'taken' : outcome.refusal.code).toBe(code);

/** The outcome's value. */
export function taken<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.refusal.code}: ${outcome.refusal.detail}`);
  return outcome.value;
}

export async function thoughtful(): Promise<Thought> {
  const house = await openHouse();
  const sidecar = standIn(house.services);
  const mine = await makeTenancy(house);
  const other = await makeTenancy(house);
  const plan: Thought['plan'] = async (id) => (await mine.call('GET', `/plans/${id}`)).body.plan;
  const until: Thought['until'] = (id, check) =>
    eventually(async () => {
      const now = await plan(id);
      return check(now) ? now : null;
    });
  const stepOf = (one: Body, id: string): Body => one.steps.find((step: Body) => step.id === id);
  return {
    ...{ house, sidecar, mine, other, plan, until },
    async light(tenancy = mine) {
      const { device_id } = await tenancy.register();
      await tenancy.connect(device_id);
      return device_id;
    },
    async goal(text, more = {}, sent) {
      const { status, body } = await mine.call('POST', '/intent', { type: 'goal', payload: { text, ...more } }, sent);
      expect([status, body]).toEqual([200, body]);
      return body.plan_id;
    },
    async observe(device_id, more = {}) {
      const asked = { device_id, data: { humidity: 81 }, ...more };
      const { status, body } = await mine.call('POST', '/cognition/observation', asked);
      expect([status, body]).toEqual([202, { status: 'OBSERVATION_RECEIVED', proposal_id: expect.any(String) }]);
      return body.proposal_id;
    },
    proposal: async (id) => (await mine.call('GET', `/cognition/proposals/${id}`)).body.proposal,
    running: (id, stepId) =>
      until(id, (now) => stepOf(now, stepId)?.status === 'running').then((now) => stepOf(now, stepId).command_id),
    async does(deviceId, commandId, isOn) {
      await mine.report(deviceId, { on: isOn });
      await mine.say(deviceId, commandId, 'succeeded');
    },
    async tick(ms) {
      house.clock.advance(ms);
      await house.runtime.timers.tick();
    },
  };
}
