import { beforeEach, expect, it } from 'vitest';
import type { VolatileOutput } from '../../src/machines/outputs.ts';
import { tenantDefinition } from '../../src/machines/tenant-record.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { clock, event, restart, runtime, store, warnings, withRuntime } from './runtime-fixture.ts';

const TENANT = '0195d9a2-7f00-7000-8000-000000000001';
const tenant = { kind: 'tenant', id: TENANT } as const;

withRuntime();

let since: number;
let changes: Extract<VolatileOutput, { type: 'tenant.changed' }>[];

beforeEach(() => {
  restart({ deviceTimeoutMs: 100 }, { definitions: () => tenantDefinition as never });
  since = clock.now();
  const policy = { confirm_by: 'requester', confirm_ttl_s: 300 };
  store.rows.set(`tenant:${TENANT}`, {
    ...{ ref: tenant, tenantId: TENANT, version: 1, machineVersion: 1, value: 'active', since, quarantine: null },
    context: { id: TENANT, name: 'Lindenhof', slug: 'lindenhof', tier: 'free', policy, createdAt: since },
    columns: {},
  });
  clock.advance(1);
  changes = [];
  runtime.actors.subscribe('tenant.changed', (change) => changes.push(change));
});

const suspend = () => runtime.actors.send(tenant, event('suspend'));
const away = () => {
  throw new CommitUnknown('connection lost');
};

it('a suspension is announced if its commit has an unknown outcome and happened, once the tenant can be read', async () => {
  await runtime.actors.read(tenant);
  store.afterCommit = away;
  let loads = 0;
  store.beforeLoad = () => {
    loads += 1;
    // Longer than a caller waits.
    clock.advance(2_000);
    if (loads < 2) throw new StoreUnavailable('gone');
  };
  const at = clock.now();
  await expect(suspend()).rejects.toThrow(CommitUnknown);
  await eventually(() => changes.length > 0);
  expect(changes).toEqual([{ type: 'tenant.changed', tenantId: TENANT, suspended: true, at }]);
  expect(warnings).toContain('state of a tenant after an unknown commit not read; retrying');
});

it('the earlier state is announced if that commit did not happen', async () => {
  store.beforeCommit = away;
  await expect(suspend()).rejects.toThrow(CommitUnknown);
  await eventually(() => changes.length > 0);
  expect(changes).toEqual([{ type: 'tenant.changed', tenantId: TENANT, suspended: false, at: since }]);
});
