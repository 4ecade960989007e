import { expect, it } from 'vitest';
import { FAILURES_PATH, staleFailures } from '../../../console/src/home/newest-failures.ts';

const update = (status: string) => ({ type: 'command_update', command_id: 'c', device_id: 'd', status });

it('of a device are read again when one of its commands fails, and at no other message', () => {
  for (const status of ['failed', 'timed_out'])
    expect(staleFailures(update(status))).toBe(`${FAILURES_PATH}d/commands?limit=20`);
  for (const status of ['dispatched', 'succeeded', 'cancelled']) expect(staleFailures(update(status))).toBeNull();
  expect(staleFailures({ type: 'plan_update', plan_id: 'p', status: 'failed' })).toBeNull();
  expect(staleFailures({ type: 'presence_update', device_id: 'd', online: false })).toBeNull();
});
