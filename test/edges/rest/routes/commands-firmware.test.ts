import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { URL_LIFE_MS } from '../../../../src/services/artifacts.ts';
import { queryGraphql } from '../../../support/graphql.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

const SUM = 'ab'.repeat(32);
const HAND = { url: 'https://example.com/light.bin', checksum: SUM };

let service: HttpService;
let mine: TestTenant;
let version = 0;
let device: string;
let release: string;
const written: { deviceId: string; message: { params: object; supplement?: object } }[] = [];

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
  service.runtime.actors.subscribe('command.write', (output) => void written.push(output));
});
beforeEach(async () => {
  device = (await mine.register()).device_id;
  release = await released();
  written.length = 0;
});
afterAll(() => service.close());

/** The parameters that devices receive. */
const received = () => written.map(({ message }) => ({ ...message.params, ...message.supplement }));

async function released(more: object = HAND): Promise<string> {
  const requested = { device_type: 'smart_light', version: `1.${++version}.0`, ...more };
  const { body } = await mine.call('POST', '/firmware/release', requested);
  const answer = await mine.call('POST', `/firmware/${body.id}/release`);
  if (answer.status !== 200) throw new Error(JSON.stringify(answer.body));
  return body.id;
}
const update = (firmware_id: unknown, to = device, more: object = {}) =>
  mine.call('POST', `/device/${to}/command`, { action: 'update_firmware', params: { firmware_id }, ...more });
const confirm = (dry_run_token: string, of = device) =>
  mine.call('POST', `/device/${of}/command/confirm`, { dry_run_token });
const invalid = {
  status: 400,
  body: { code: 'PARAMS_INVALID', errors: [{ path: 'params.firmware_id' }] },
};

describe('update_firmware', () => {
  it('is critical; only the device receives version, url and checksum of the release', async () => {
    await mine.connect(device);
    const requested = await update(release);
    expect(requested).toMatchObject({ status: 409, body: { code: 'DRY_RUN_REQUIRED', preview: { expected: null } } });
    expect(written).toEqual([]);
    expect((await confirm(requested.body.dry_run_token)).status).toBe(202);
    const params = { firmware_id: release, version: `1.${version}.0`, ...HAND };
    expect(received()).toEqual([params]);
    expect(written.map(({ message }) => message.params)).toEqual([{ firmware_id: release }]);
    const shown = await mine.call('GET', `/commands/${requested.body.command_id}`);
    expect(shown.body.command).toMatchObject({ params: { firmware_id: release }, safety_class: 'CRITICAL' });
    expect(JSON.stringify(shown.body)).not.toContain(HAND.url);
  });

  it('shows version, host, checksum and who released it, wherever it is previewed', async () => {
    const shown = { version: `1.${version}.0`, url_host: 'example.com', checksum: SUM, released_by: mine.userId };
    const { body } = await update(release);
    expect(body.preview).toMatchObject({ current: {}, expected: null, changes: null, firmware: shown });
    const inbox = (await mine.call('GET', '/confirmations')).body.confirmations;
    const entry = inbox.find(({ command_id }: { command_id: string }) => command_id === body.command_id);
    expect(entry.preview.firmware).toEqual(shown);
    const step = { id: 'a', device_id: device, action: 'update_firmware', params: { firmware_id: release } };
    const plan = await mine.call('POST', '/plans', { steps: [step], dry_run: true });
    expect(plan.body.steps[0].preview.firmware).toEqual(shown);
    const text =
      '{ confirmations { nodes { commandId preview { firmware { version urlHost checksum releasedBy } } } } }';
    const { data } = (await queryGraphql(service, text, { token: mine.tokens.owner })).body;
    const node = data.confirmations.nodes.find(({ commandId }: { commandId: string }) => commandId === body.command_id);
    expect(Object.values(node.preview.firmware)).toEqual(Object.values(shown));
    const more = await mine.call(
      'POST',
      `/firmware/${release}/release`,
      { rollout_percent: 50 },
      {
        token: mine.tokens.admin,
      },
    );
    expect(more.status).toBe(200);
    expect((await confirm(body.dry_run_token)).status).toBe(202);
  });

  it('shows the host of an uploaded artifact, and the user that released it', async () => {
    const { body } = await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version: '97.0.0' });
    const octets = { headers: { 'content-type': 'application/octet-stream' } };
    await mine.call('PUT', `/firmware/${body.id}/artifact`, Buffer.from('firmware'), octets);
    await mine.call('POST', `/firmware/${body.id}/release`, undefined, { token: mine.tokens.admin });
    const { preview } = (await update(body.id)).body;
    const { id } = (await mine.call('GET', '/auth/me', undefined, { token: mine.tokens.admin })).body.user;
    expect(preview.firmware).toMatchObject({ url_host: new URL(service.url).host, released_by: id });
  });

  it('of an uploaded artifact has a URL that is signed at the confirmation', async () => {
    const { body } = await mine.call('POST', '/firmware/release', { device_type: 'smart_light', version: '99.0.0' });
    const octets = { headers: { 'content-type': 'application/octet-stream' } };
    await mine.call('PUT', `/firmware/${body.id}/artifact`, Buffer.from('firmware'), octets);
    await mine.call('POST', `/firmware/${body.id}/release`);
    await mine.connect(device);
    const requested = await update(body.id, device, { dry_run: true });
    expect(requested.status).toBe(200);
    service.clock.advance(60_000);
    await confirm(requested.body.dry_run_token);
    const [{ url }] = received() as [{ url: string }];
    expect(Number(new URL(url).searchParams.get('expires'))).toBe(service.clock.now() + URL_LIFE_MS);
    expect(await (await fetch(url)).text()).toBe('firmware');
    const journal = await service.store.actors.journal({ kind: 'command', id: requested.body.command_id }, 50);
    expect(JSON.stringify(journal)).not.toContain('signature=');
  });

  it('waits for its device, with the URL signed at the confirmation', async () => {
    const requested = await update(release);
    await confirm(requested.body.dry_run_token);
    await mine.connect(device);
    expect(received()).toMatchObject([{ firmware_id: release, ...HAND }]);
  });

  it('requires a released firmware of this device type and of this tenant', async () => {
    const draft = await mine.call('POST', '/firmware/release', {
      ...{ device_type: 'smart_light', version: '98.0.0', ...HAND },
    });
    const lock = await released({ device_type: 'smart_lock', ...HAND });
    const other = await makeTestTenant(service);
    const theirs = await other.call('POST', '/firmware/release', {
      ...{ device_type: 'smart_light', version: '1.0.0', ...HAND },
    });
    await other.call('POST', `/firmware/${theirs.body.id}/release`);
    for (const id of [draft.body.id, lock, theirs.body.id, '0195d9a2-7f00-7000-8000-00000000ffff', 'x'.repeat(36)]) {
      expect(await update(id)).toMatchObject(invalid);
      expect(await update(id, device, { dry_run: true })).toMatchObject(invalid);
    }
    expect((await update(release.toUpperCase())).status).toBe(409);
  });

  it('accepts neither a url nor a checksum from the caller', async () => {
    const params = { firmware_id: release, url: 'https://evil.example.com/' };
    const answer = await mine.call('POST', `/device/${device}/command`, { action: 'update_firmware', params });
    expect(answer).toMatchObject({ status: 400, body: { code: 'PARAMS_INVALID' } });
  });

  it('is checked again at its confirmation: with a withdrawn release it is refused, also from the inbox', async () => {
    const requested = await update(release);
    await mine.call('POST', `/firmware/${release}/withdraw`);
    expect(await confirm(requested.body.dry_run_token)).toMatchObject(invalid);
    const inbox = await mine.call('POST', `/confirmations/${requested.body.command_id}/approve`);
    expect(inbox).toMatchObject({ status: 400, body: { code: 'PARAMS_INVALID' } });
    expect(written).toEqual([]);
  });

  it('loads the release once for many devices', async () => {
    const lock = (await mine.register({ device_type: 'smart_lock' })).device_id;
    const more = (await mine.register({ room_id: mine.roomId })).device_id;
    await mine.call('POST', '/groups', { name: `G${version}`, device_ids: [device, lock, more] });
    const find = vi.spyOn(service.store.firmware, 'find');
    const input = { action: 'update_firmware', params: { firmware_id: release } };
    const batch = await mine.call('POST', '/devices/command', { device_ids: [device, lock, more], ...input });
    expect(find).toHaveBeenCalledTimes(1);
    const codes = (body: { results: { device_id: string; code: string }[] }) =>
      Object.fromEntries(body.results.map(({ device_id, code }) => [device_id, code]));
    const expected = { [device]: 'DRY_RUN_REQUIRED', [lock]: 'PARAMS_INVALID', [more]: 'DRY_RUN_REQUIRED' };
    expect(codes(batch.body)).toEqual(expected);
    const group = await mine.call('POST', `/groups/g${version}/command`, input);
    expect(codes(group.body)).toEqual(expected);
    expect(find).toHaveBeenCalledTimes(2);
    find.mockRestore();
  });

  it('needs no lookup for other commands', async () => {
    const find = vi.spyOn(service.store.firmware, 'find');
    expect((await mine.call('POST', `/device/${device}/command`, { action: 'turn_on' })).status).toBe(202);
    expect(find).not.toHaveBeenCalled();
    find.mockRestore();
  });
});
