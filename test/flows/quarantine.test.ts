import { expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Store } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { startService } from '../support/service.ts';

/** Corrupts the rows of one device, as a bug would. */
const spoiling = (store: Store, victim: () => string): Store => ({
  ...store,
  actors: {
    ...store.actors,
    commit: (commits, options) =>
      store.actors.commit(
        commits.map((commit) =>
          commit.ref.id === victim() ? { ...commit, fixed: { ...commit.fixed, poison: '\u0000' } } : commit,
        ),
        options,
      ),
  },
});

oneDeployment('an actor that fails three times in a minute', (deployment) => {
  it('is quarantined, visible to administrators, over a restart, and continues after its release', async () => {
    let victim = '';
    const options = { wrapStore: (store: Store) => spoiling(store, () => victim) };
    let at = await startService(deployment().env, options);
    const owner = await at.owner();
    const device = await register(owner);
    const other = await register(owner);
    const path = `/v1/actors/device/${device.device_id}`;
    victim = device.device_id;
    for (let n = 0; n < 3; n++) await owner.patch(`/v1/devices/${victim}`, { name: `${n}` });

    const listed = async () => (await owner.get('/v1/actors?quarantined=true')).body.actors;
    expect(await eventually(async () => ((await listed()).length > 0 ? listed() : null))).toMatchObject([
      { kind: 'device', id: victim, quarantined: true },
    ]);
    const { actor } = (await owner.get(path)).body;
    expect(actor).toMatchObject({
      quarantined: true,
      quarantine_reason: 'the store rejected the data of an event',
      version: 1,
    });
    victim = '';
    expect((await owner.patch(`/v1/devices/${device.device_id}`, { name: 'no' })).status).toBe(500);
    expect((await owner.patch(`/v1/devices/${other.device_id}`, { name: 'yes' })).status).toBe(200);

    await at.stop();
    at = await startService(deployment().env, options);
    const again = at.api(owner.token);
    expect((await again.get(path)).body.actor.quarantined).toBe(true);
    const released = await again.post(`${path}/release`, {});
    expect([released.status, released.body]).toMatchObject([
      200,
      { status: 'released', actor: { quarantined: false } },
    ]);
    expect((await again.post(`${path}/release`, {})).body.code).toBe('ILLEGAL_TRANSITION');
    expect((await again.patch(`/v1/devices/${device.device_id}`, { name: 'yes' })).status).toBe(200);
    const { entries } = (await again.get(`/v1/audit?subject=device:${device.device_id}`)).body;
    expect(entries.map(({ action }: { action: string }) => action)).toEqual([
      'patchDevice',
      'releaseActor',
      'registerDevice',
    ]);
    await at.stop();
  });
});

oneDeployment('the stream of transitions', (deployment) => {
  it('shows the transitions of a device over a WebSocket', async () => {
    const at = await startService(deployment().env);
    const owner = await at.owner();
    const device = await register(owner);
    const { ticket } = (await owner.post('/ws/ticket', {})).body;
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/actors?kind=device,command&token=${ticket}`);
    const received: { id: string; event: string; to: string; from: string | null }[] = [];
    const letIn = new Promise<void>((resolve) => {
      socket.on('message', (data) => (String(data) === 'pong' ? resolve() : received.push(JSON.parse(String(data)))));
    });
    socket.on('open', () => socket.send('ping'));
    await letIn;
    const speaker = await connectRawDevice(at, device);
    for (let n = 0; n < 50; n++) await speaker.send('state', { state: { n } });
    const { body } = await owner.post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' });
    speaker.mqtt.end(true);
    await eventually(() => received.some(({ to }) => to.endsWith('link.offline')));
    const events = received.map(({ id, event }) => [id === device.device_id ? 'device' : 'command', event]);
    expect(events.filter(([kind]) => kind === 'device').map(([, event]) => event)).toEqual([
      expect.stringMatching(/^(hello|state)\./),
      'presence.lost',
    ]);
    expect(events).toContainEqual(['command', 'request']);
    expect(received.find(({ id }) => id === body.command_id)).toMatchObject({ from: null });
    socket.close();
    await at.stop();
  });
});
