import { afterAll, beforeAll, expect, it } from 'vitest';
import { type HttpService, startHttpService } from '../support/http-service.ts';
import type { MemoryStore } from '../support/memory-store.ts';
import { makeTestTenant, type TestTenant } from '../support/test-tenant.ts';

let service: HttpService<MemoryStore>;
let mine: TestTenant;
beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

it('a tenant that this build cannot read allows no request, in any state and under any policy', async () => {
  const { device_id } = await mine.register({ device_type: 'lock' });
  const { body } = await mine.call('POST', `/device/${device_id}/command`, { action: 'unlock' });
  await mine.call('PATCH', '/tenant/policy', { confirm_by: 'another_principal' }, { token: mine.tokens.owner });
  const { rows } = service.store.actors;
  for (const [address, row] of rows) {
    if (row.ref.kind === 'tenant')
      rows.set(address, { ...row, value: 'suspended', context: { ...row.context, tier: 1 } });
  }
  service.clock.advance(601_000);
  service.runtime.actors.passivate();

  const token = { dry_run_token: body.dry_run_token };
  expect((await mine.call('POST', `/device/${device_id}/command/confirm`, token)).status).toBe(500);
  expect((await mine.call('GET', '/homes')).body.code).toBe('INTERNAL');
  expect((await mine.call('GET', '/auth/me')).status).toBe(200);
});
