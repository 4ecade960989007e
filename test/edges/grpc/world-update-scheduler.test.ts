import { expect, it } from 'vitest';
import { defaultSidecarLimits } from '../../../src/edges/grpc/sidecar-limits.ts';
import { WorldUpdateScheduler } from '../../../src/edges/grpc/world-update-scheduler.ts';
import { newId } from '../../../src/main/ids.ts';
import type { ActiveContext } from '../../../src/operations/cognition/contract.ts';

const context = (tenantId: string, homeId: string): ActiveContext => ({
  ...{ id: newId(), tenantId, homeId, kind: 'goal', deviceId: null, text: 'good night', action: null, data: null },
  ...{ note: null, phase: 'thinking', createdAt: 0, nodes: [] },
});

it('wakes a waiting slow part when a fast one has changed', () => {
  const scheduler = new WorldUpdateScheduler(defaultSidecarLimits);
  const [slow, quick] = [newId(), newId()].map((homeId) => ({ tenantId: newId(), homeId })) as [Home, Home];
  for (const { tenantId, homeId } of [slow, quick]) scheduler.openContext(context(tenantId, homeId));
  for (let part = scheduler.takeNext(0); part !== null; part = scheduler.takeNext(0)) {
    scheduler.recordReadTime(part, part.homeId === slow.homeId ? 1_000 : 1);
  }
  expect(scheduler.delayUntilNext(2_000)).toBeNull();
  const moved = ({ tenantId, homeId }: Home) => scheduler.markDeviceChanged(tenantId, newId(), homeId);
  expect(moved(slow)).toBe(true);
  expect(scheduler.delayUntilNext(2_000)).toBe(18_000);
  expect(moved(slow)).toBe(false);
  expect(moved(quick)).toBe(true);
  expect(scheduler.delayUntilNext(2_000)).toBe(0);
  expect(scheduler.takeNext(2_000)).toMatchObject(quick);
  expect(scheduler.delayUntilNext(2_000)).toBe(18_000);
  expect(moved({ ...quick, homeId: newId() })).toBe(true);
});

interface Home {
  tenantId: string;
  homeId: string;
}
