import { v7 } from 'uuid';
import { afterAll, beforeAll } from 'vitest';
import type { ActiveContext, Cognition } from '../../../src/operations/cognition/contract.ts';
import { type CognitionFixture, startCognitionFixture } from '../../support/cognition-fixture.ts';

export let world: CognitionFixture;
export let cognition: Cognition;

/** Starts a service with cognition before the tests of the file. */
export function withCognition(): void {
  beforeAll(async () => {
    world = await startCognitionFixture();
    cognition = world.service.cognition;
  });
  afterAll(() => world.service.close());
}

export const gathered = async (tenantId?: string): Promise<ActiveContext[]> => {
  const all: ActiveContext[] = [];
  for await (const one of cognition.active(tenantId)) all.push(one);
  return all;
};
export const suspended = async <T>(work: () => Promise<T>): Promise<T> => {
  const operator = await world.service.token(v7(), { scope: 'platform:admin' });
  const send = (verb: string) =>
    world.service.call('POST', `/v1/admin/tenants/${world.tenant.tenantId}/${verb}`, { token: operator, body: {} });
  await send('suspend');
  try {
    return await work();
  } finally {
    await send('resume');
  }
};
export const switchedOff = async <T>(work: () => Promise<T>): Promise<T> => {
  await world.service.flags.set('cognition_disabled', true);
  try {
    return await work();
  } finally {
    await world.service.flags.set('cognition_disabled', false);
  }
};
export const kindsOf = (id: string) =>
  world.sidecar.changesOf(id).map((one) => (one.type === 'interrupted' ? `interrupted ${one.reason}` : one.type));

export const stateOf = async (id: string): Promise<string> =>
  (await world.tenant.call('GET', `/actors/plan/${id}`)).body.actor.state;
