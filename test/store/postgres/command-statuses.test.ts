import { expect, it } from 'vitest';
import type { ChangeStatus } from '../../../src/domain/change-request.ts';
import { commandStatuses } from '../../../src/domain/command.ts';
import { caStatuses } from '../../../src/domain/device-ca.ts';
import { firmwareStatuses } from '../../../src/domain/firmware.ts';
import {
  executingStatuses,
  failedStatuses,
  finalStatuses,
  openStatuses,
} from '../../../src/store/postgres/command-statuses.ts';
import { eachDatabase } from '../../support/store.ts';

const statusesIn = (sql: string): string[] => [...sql.matchAll(/'(\w+)'/g)].map(([, status = '']) => status);

it('divides the statuses of commands into open and final ones', () => {
  expect([...statusesIn(openStatuses), ...statusesIn(finalStatuses)].sort()).toEqual([...commandStatuses].sort());
  expect(executingStatuses).toBe(`('dispatched', 'acknowledged', 'in_progress')`);
  expect(failedStatuses).toBe(`('failed', 'timed_out')`);
});

interface Condition {
  relation: string;
  condition: string;
}

eachDatabase('conditions of the schema', (backend) => {
  it('name only statuses that exist, and none of the table of commands', async () => {
    const conditions = await backend().database.read<Condition>({
      text: `select indexrelid::regclass::text as relation, pg_get_expr(indpred, indrelid) as condition
          from pg_index where indpred is not null
        union all
        select conrelid::regclass::text, pg_get_constraintdef(oid) from pg_constraint
          where contype = 'c' and connamespace = 'public'::regnamespace`,
    });
    const found = conditions
      .filter(({ condition }) => /\bstatus\b/.test(condition))
      .map(({ relation, condition }) => `${relation}: ${statusesIn(condition).join(', ')}`);
    const waiting: ChangeStatus = 'awaiting_confirmation';
    expect(found.sort()).toEqual([
      `change_requests_waiting: ${waiting}`,
      `device_cas: ${caStatuses.join(', ')}`,
      `firmware: ${firmwareStatuses.join(', ')}`,
      'firmware: released',
      'proposals_open: pending, done',
      'proposals_open_of_tenant: pending, done',
    ]);
  });
});
