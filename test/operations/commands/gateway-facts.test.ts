import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService<MemoryStore>;
let mine: TestTenant;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

it('a command for a live device needs no read and one commit', async () => {
  const { store } = service;
  const { device_id: id } = await mine.register();
  const manifests = vi.spyOn(store.devices, 'manifests');
  const before = [store.actors.loads.length, store.actors.commits.length, store.userReads];
  const answer = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
  expect(answer.status).toBe(202);
  expect(manifests).not.toHaveBeenCalled();
  const after = [store.actors.loads.length, store.actors.commits.length, store.userReads];
  expect(after).toEqual([before[0], (before[1] as number) + 1, before[2]]);
});

it('no secret of a device and no token of a dry run is in log or journal', async () => {
  const { device_id: id, device_secret: secret } = await mine.register({ device_type: 'lock' });
  const rotated = await mine.call('POST', `/device/${id}/rotate-secret`);
  const { body } = await mine.call('POST', `/device/${id}/command`, { action: 'unlock' });
  await mine.call('POST', `/device/${id}/command/confirm`, { dry_run_token: body.dry_run_token });
  const { actors } = service.store;
  const kept = JSON.stringify([service.errors, [...actors.journals], [...actors.rows], actors.commits]);
  for (const hidden of [secret, rotated.body.new_secret, body.dry_run_token]) expect(kept).not.toContain(hidden);
});
