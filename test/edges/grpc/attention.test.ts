import { expect, it } from 'vitest';
import { Attention } from '../../../src/edges/grpc/attention.ts';
import { defaultLimits } from '../../../src/edges/grpc/limits.ts';
import { newId } from '../../../src/main/ids.ts';
import type { ActiveContext } from '../../../src/operations/cognition/contract.ts';

const context = (tenantId: string, homeId: string): ActiveContext => ({
  ...{ id: newId(), tenantId, homeId, kind: 'goal', deviceId: null, text: 'good night', action: null, data: null },
  ...{ note: null, phase: 'thinking', createdAt: 0, nodes: [] },
});

it('wakes whoever waits for a part that took long to read, when one that did not has changed', () => {
  const attention = new Attention(defaultLimits);
  const [slow, quick] = [newId(), newId()].map((homeId) => ({ tenantId: newId(), homeId })) as [Home, Home];
  for (const { tenantId, homeId } of [slow, quick]) attention.open(context(tenantId, homeId));
  for (let part = attention.next(0); part !== null; part = attention.next(0)) {
    attention.took(part, part.homeId === slow.homeId ? 1_000 : 1);
  }
  expect(attention.pause(2_000)).toBeNull();
  const moved = ({ tenantId, homeId }: Home) => attention.moved(tenantId, newId(), homeId);
  expect(moved(slow)).toBe(true);
  expect(attention.pause(2_000)).toBe(18_000);
  expect(moved(slow)).toBe(false);
  expect(moved(quick)).toBe(true);
  expect(attention.pause(2_000)).toBe(0);
  expect(attention.next(2_000)).toMatchObject(quick);
  expect(attention.pause(2_000)).toBe(18_000);
  expect(moved({ ...quick, homeId: newId() })).toBe(true);
});

interface Home {
  tenantId: string;
  homeId: string;
}
