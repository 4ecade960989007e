import { expect, it } from 'vitest';
import type { ActorCommit, Store } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { register } from '../support/device.ts';
import { mapConcurrently } from '../support/map-concurrently.ts';
import { connectRawDevice } from '../support/raw-device.ts';
import { startService } from '../support/service.ts';

/** Valid JSON that no database stores as text. */
const POISON = '\u0000';
const TARGETS = 100;

/** Corrupts rows after their decision, as a bug would. */
function poisoning(store: Store, isMeant: (commit: ActorCommit) => boolean): Store {
  const spoil = (commit: ActorCommit): ActorCommit =>
    isMeant(commit)
      ? {
          ...commit,
          live: { ...commit.live, poison: POISON },
        }
      : commit;
  return {
    ...store,
    actors: {
      ...store.actors,
      commit: (commits, options) => store.actors.commit(commits.map(spoil), options),
    },
  };
}

oneDeployment('a row that the database refuses', (deployment) => {
  it('among 100 valid ones is refused alone, and the others are stored', async () => {
    let victim = '';
    const poisoned: string[] = [];
    const at = await startService(deployment().env, {
      wrapStore: (store) =>
        poisoning(store, ({ ref, fixed, readVersion }) => {
          const meant = victim !== '' && (ref.id === victim || (readVersion === 0 && fixed.deviceId === victim));
          if (meant) poisoned.push(ref.kind);
          return meant;
        }),
    });
    const owner = await at.owner();
    const devices = await mapConcurrently([...Array(TARGETS).keys()], () => register(owner));
    const [first, second] = devices;
    const speakers = [await connectRawDevice(at, first), await connectRawDevice(at, second)] as const;
    victim = first.device_id;

    const { status, body } = await owner.post('/v1/devices/command', {
      device_ids: devices.map(({ device_id }) => device_id),
      action: 'set_brightness',
      params: { level: 1 },
    });
    expect(status).toBe(200);
    const refused = body.results.filter(({ success }: { success: boolean }) => !success);
    expect(refused).toEqual([{ device_id: victim, success: false, error: expect.any(String), code: 'GATEWAY_ERROR' }]);
    expect(JSON.stringify(refused)).not.toMatch(/null byte|0x00|sql|22P05|unsupported/i);
    const [commands, none] = await Promise.all(
      [second, first].map(async ({ device_id }) => (await owner.get(`/v1/device/${device_id}/commands`)).body.commands),
    );
    expect([commands.length, none.length]).toEqual([1, 0]);

    await Promise.all(speakers.map((speaker) => speaker.send('state', { state: { n: 1 } })));
    const shown = async (id: string) => (await owner.get(`/v1/devices/${id}`)).body.device.state;
    expect(await shown(second.device_id)).toEqual({ n: 1 });
    expect(await shown(victim)).toEqual({});
    const refusal = await eventually(() => speakers[0].received.at(-1));
    expect(refusal).toMatchObject({ type: 'error', payload: { code: 'PAYLOAD_INVALID' } });
    expect(poisoned).toEqual(expect.arrayContaining(['command', 'device']));

    victim = '';
    await speakers[0].send('state', { state: { n: 2 } });
    expect(await shown(first.device_id)).toEqual({ n: 2 });
    for (const { mqtt } of speakers) mqtt.end(true);
    await at.stop();
  });
});
