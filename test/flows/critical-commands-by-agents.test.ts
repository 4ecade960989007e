import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Requester } from '../support/access-fixture.ts';
import { eventually } from '../support/clock.ts';
import { close, GuardedHome, type GuardedTenant, gate, startGuardedTenant, wide } from '../support/guarded-home.ts';

// Under `confirm_by: person` no program makes a critical command reach a device: devices over MQTT, requests over REST,
// with every credential that a program can have.

let tenant: GuardedTenant;
let home: GuardedHome;

beforeAll(async () => {
  tenant = await startGuardedTenant();
});
beforeEach(async () => {
  home = await GuardedHome.furnish(tenant);
});
afterEach(() => home.close());
afterAll(() => tenant.stop());

const send = (program: Requester | undefined, method: string, path: string, body?: unknown) =>
  (program as Requester).request(method, `/v1${path}`, body);

describe('a program that changes manifests', () => {
  it('opens nothing, alone or with what a person has requested and not confirmed', async () => {
    const path = `/devices/${home.ids.gate}/manifest`;
    const requested = await tenant.owner.put(`/v1${path}`, {
      version: 1,
      capabilities: [{ action: 'open_gate' }, close],
    });
    expect(requested.body.code).toBe('DRY_RUN_REQUIRED');
    for (const program of tenant.programs) {
      const opened = await send(program, 'POST', `/device/${home.ids.gate}/command`, { action: 'open_gate' });
      expect(opened.body.code).toBe('DRY_RUN_REQUIRED');
      const { dry_run_token, command_id } = opened.body;
      const attempts: [string, string, object?][] = [
        ['POST', `/device/${home.ids.gate}/command/confirm`, { dry_run_token }],
        ['POST', `/confirmations/${command_id}/approve`],
        ['PATCH', '/tenant/policy', { confirm_by: 'requester' }],
        ['PUT', path, { version: 1, capabilities: [{ action: 'open_gate' }, close] }],
        ['PUT', path, { version: 1, capabilities: [close] }],
        ['PUT', path, { version: 1, capabilities: [gate(), close, { action: 'Open-Gate' }] }],
        ['PUT', path, { version: 1, capabilities: [gate(wide), close] }],
        ['POST', path, { capabilities: [{ action: 'open_gate' }] }],
        [
          'POST',
          `/change-requests/${requested.body.change_id}/confirm`,
          { dry_run_token: requested.body.dry_run_token },
        ],
        ['POST', `/change-requests/${requested.body.change_id}/approve`],
      ];
      for (const [method, route, body] of attempts)
        expect([program.name, route, (await send(program, method, route, body)).status]).toEqual([
          program.name,
          route,
          403,
        ]);
    }
    expect((await tenant.owner.get(`/v1${path}`)).body.version).toBe(1);
    await home.settle();
    expect(home.reached).toEqual([]);
  });

  it('opens the gate only after a person has confirmed the lower class', async () => {
    const path = `/v1/devices/${home.ids.gate}/manifest`;
    const lower = { version: 1, capabilities: [{ action: 'open_gate' }, close] };
    const { change_id, dry_run_token } = (await tenant.owner.put(path, lower)).body;
    expect((await tenant.owner.post(`/v1/change-requests/${change_id}/confirm`, { dry_run_token })).status).toBe(200);
    const opened = await send(tenant.programs[0], 'POST', `/device/${home.ids.gate}/command`, { action: 'open_gate' });
    expect(opened.status).toBe(202);
    await eventually(() => home.reached.includes('open_gate'));
  });
});
