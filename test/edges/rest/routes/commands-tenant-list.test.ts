import { describe, expect, it } from 'vitest';
import { queryGraphql } from '../../../support/graphql.ts';
import { mine, other, service, withTwoTenants } from '../two-tenants.ts';

withTwoTenants();

interface Listed {
  id: string;
  device_id: string;
}

const register = async (device_type = 'smart_light'): Promise<string> =>
  (await mine.register({ device_type })).device_id;
const send = async (id: string, action: string): Promise<string> =>
  (await mine.call('POST', `/device/${id}/command`, { action })).body.command_id;
const list = async (query = '', token = mine.tokens.user) =>
  mine.call('GET', `/commands${query}`, undefined, { token });
const idsOf = async (query = '', token?: string): Promise<string[]> =>
  (await list(query, token)).body.commands.map(({ id }: Listed) => id);

describe('GET /commands', () => {
  it('lists the commands of all devices of the tenant, newest first, with their device and requester', async () => {
    const [lamp, lock] = [await register(), await register('lock')];
    const on = await send(lamp, 'turn_on');
    const at = new Date(service.clock.now()).toISOString();
    service.clock.advance(1_000);
    const refused = await send(lock, 'sing');
    const { device_id: theirs } = await other.register();
    await other.call('POST', `/device/${theirs}/command`, { action: 'turn_on' });
    expect((await list()).body).toEqual({
      commands: [
        {
          ...{
            id: refused,
            device_id: lock,
            action: 'sing',
            params: {},
            status: 'rejected',
            requested_by: mine.userId,
          },
          timestamp: new Date(service.clock.now()).toISOString(),
          refusal: { code: 'ACTION_NOT_IN_MANIFEST', detail: "The device does not offer 'sing'." },
        },
        {
          ...{ id: on, device_id: lamp, action: 'turn_on', params: {}, status: 'dispatched', timestamp: at },
          requested_by: mine.userId,
        },
      ],
      count: 2,
      next_cursor: null,
    });
  });

  it('filters by status, device and time, and pages', async () => {
    const [lamp, lock] = [await register(), await register('lock')];
    const sent: string[] = [];
    for (const action of ['turn_on', 'sing', 'turn_off', 'sing']) {
      sent.unshift(await send(lamp, action));
      service.clock.advance(1_000);
    }
    const from = new Date(service.clock.now()).toISOString();
    const waiting = (await mine.call('POST', `/device/${lock}/command`, { action: 'unlock' })).body.command_id;
    const [second, off, first, on] = sent;
    expect(await idsOf('?status=rejected')).toEqual([second, first]);
    expect(await idsOf('?status=awaiting_confirmation')).toEqual([waiting]);
    expect(await idsOf(`?device_id=${lamp}`)).toEqual(sent);
    expect(await idsOf(`?device_id=${lamp}&status=dispatched`)).toEqual([off, on]);
    expect(await idsOf(`?from=${from}`)).toEqual([waiting]);
    expect(await idsOf(`?from=${from}&device_id=${lamp}`)).toEqual([]);
    expect(await idsOf(`?to=${from}`)).toEqual(sent);
    expect(await idsOf(`?to=${from}&device_id=${lock}`)).toEqual([]);
    const [before] = (await list(`?to=${from}&limit=1`)).body.commands;
    expect(await idsOf(`?from=${before.timestamp}&to=${from}`)).toEqual([second]);
    expect((await list(`?to=${from}&limit=1`)).body.count).toBe(4);
    const { device_id: theirs } = await other.register();
    expect(await idsOf(`?device_id=${theirs}`)).toEqual([]);

    const filters = ['', '&status=rejected', `&device_id=${lamp}`, `&to=${from}`, `&requested_by=${mine.userId}`];
    for (const filter of filters) {
      const all = await idsOf(`?limit=200${filter}`);
      const seen: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const { body } = await list(`?limit=1${filter}${cursor && `&cursor=${cursor}`}`);
        seen.push(...body.commands.map(({ id }: Listed) => id));
        cursor = body.next_cursor;
      }
      expect(seen).toEqual(all);
    }
    const { next_cursor } = (await list('?limit=1&status=rejected')).body;
    for (const query of [
      `?cursor=${next_cursor}`,
      '?status=sent',
      '?from=yesterday',
      '?to=x',
      '?device_id=x',
      '?requested_by=x',
    ])
      expect((await list(query)).status).toBe(400);
  });

  it('filters by the user who requested them, also together with other filters', async () => {
    const [lamp, fan] = [await register(), await register()];
    const { admin: token } = mine.tokens;
    const { id: memberId } = (await mine.call('GET', '/auth/me', undefined, { token })).body.user;
    const sendAs = async (id: string, action: string): Promise<string> =>
      (await mine.call('POST', `/device/${id}/command`, { action }, { token })).body.command_id;
    const mineOn = await send(lamp, 'turn_on');
    const [on, refused, off] = [
      await sendAs(lamp, 'turn_on'),
      await sendAs(lamp, 'sing'),
      await sendAs(fan, 'turn_off'),
    ];
    expect(await idsOf(`?requested_by=${memberId}`)).toEqual([off, refused, on]);
    expect(await idsOf(`?requested_by=${mine.userId}`)).toEqual([mineOn]);
    expect(await idsOf(`?requested_by=${memberId}&device_id=${lamp}&status=dispatched`)).toEqual([on]);
    expect(await idsOf(`?requested_by=${other.userId}`)).toEqual([]);
    const { device_id: theirs } = await other.register();
    await other.call('POST', `/device/${theirs}/command`, { action: 'turn_on' });
    expect(await idsOf(`?requested_by=${other.userId}`)).toEqual([]);
    const query = `{ tenantCommands(requestedBy: "${memberId}", status: REJECTED) { nodes { id } } }`;
    const answer = await queryGraphql(service, query, { token: mine.tokens.user });
    expect(answer.body.data.tenantCommands.nodes).toEqual([{ id: refused }]);
  });

  it('requires the role user and the scope read:commands', async () => {
    expect((await list('', mine.tokens.viewer)).body.code).toBe('FORBIDDEN_ROLE');
    const key = (await mine.call('POST', '/auth/api-keys', { name: 'k', scopes: ['read:devices'] })).body.key;
    expect((await list('', key)).body.code).toBe('INSUFFICIENT_SCOPE');
  });

  it('shows a restricted key the commands of its devices alone', async () => {
    const [lamp, lock, fan] = [await register(), await register('lock'), await register()];
    const [on, locked, , off] = [
      await send(lamp, 'turn_on'),
      await send(lock, 'lock'),
      await send(fan, 'turn_on'),
      await send(lamp, 'turn_off'),
    ];
    const keyFor = async (devices: string[]): Promise<string> =>
      (
        await mine.call('POST', '/auth/api-keys', {
          ...{ name: 'k', scopes: ['read:commands'], restrict_to: { devices } },
        })
      ).body.key;
    const [one, two] = [await keyFor([lamp]), await keyFor([lamp, lock])];
    expect(await idsOf('', one)).toEqual([off, on]);
    expect(await idsOf('', two)).toEqual([off, locked, on]);
    expect(await idsOf('?status=dispatched', two)).toEqual([off, locked, on]);
    expect(await idsOf(`?device_id=${fan}`, two)).toEqual([]);
    expect(await idsOf(`?device_id=${lock}`, two)).toEqual([locked]);
  });

  it('is a connection in GraphQL, with the devices', async () => {
    const lamp = await register();
    await send(lamp, 'turn_on');
    const refused = await send(lamp, 'sing');
    const query = `{ tenantCommands(status: REJECTED, first: 5) { nodes { id refusal { code } device { id } } } }`;
    expect((await queryGraphql(service, query, { token: mine.tokens.user })).body.data.tenantCommands.nodes).toEqual([
      { id: refused, refusal: { code: 'ACTION_NOT_IN_MANIFEST' }, device: { id: lamp } },
    ]);
  });
});
