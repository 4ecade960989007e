import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { cloud, startOnline, until, withSmallCloud } from './device-fixture.ts';

withSmallCloud();

describe('commands', () => {
  it('are accepted, report progress, and are answered with result and state', async () => {
    const device = await startOnline({
      state: { brightness: 0 },
      commands: {
        set_brightness: async ({ level }, { progress, action }) => {
          progress(50, { brightness: 20 });
          await Promise.resolve();
          return { result: { action }, state: { brightness: level ?? null } };
        },
      },
    });
    const id = cloud.command('set_brightness', { level: 40 });
    await until(() => expect(cloud.acks(id)).toHaveLength(3));
    expect(cloud.acks(id)).toEqual([
      { command_id: id, status: 'accepted' },
      { command_id: id, status: 'in_progress', progress: 50, state: { brightness: 20 } },
      { command_id: id, status: 'succeeded', result: { action: 'set_brightness' }, state: { brightness: 40 } },
    ]);
    expect(device.state).toEqual({ brightness: 40 });
  });

  it('fail with the message of the error that the handler throws, or if the action is unknown', async () => {
    await startOnline({
      commands: {
        jam: () => {
          throw new Error('motor stalled');
        },
        odd: () => Promise.reject('just text'),
        long: () => Promise.reject(new Error('x'.repeat(2_000))),
        large: () => ({ state: { text: 'x'.repeat(33_000) } }),
        constructor: () => undefined,
      },
    });
    const errorOf = async (action: string) => {
      const id = cloud.command(action);
      await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('failed'));
      return cloud.acks(id).at(-1)?.error;
    };
    expect(await errorOf('jam')).toBe('motor stalled');
    expect(await errorOf('odd')).toBe('just text');
    expect(await errorOf('long')).toHaveLength(500);
    expect(await errorOf('large')).toBe('the state is too large, or nested too deeply');
    expect(await errorOf('fly')).toBe('unknown action fly');
    expect(await errorOf('toString')).toBe('unknown action toString');
    const known = cloud.command('constructor');
    await until(() => expect(cloud.acks(known).at(-1)?.status).toBe('succeeded'));
  });

  it('fail if their outcome does not fit in a message or cannot be encoded', async () => {
    const device = await startOnline({
      commands: {
        dump: () => ({ result: 'x'.repeat(70_000) }),
        measure: () => ({ result: { celsius: Number.NaN } }),
        watch: (_params, { progress }) => progress(Number.POSITIVE_INFINITY) as undefined,
        cry: () => Promise.reject(new Error(`${'x'.repeat(499)}\u{1f631}`)),
        hiss: () => Promise.reject(new Error('a\0b')),
      },
    });
    const errorOf = async (action: string) => {
      const id = cloud.command(action);
      await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('failed'));
      return cloud.acks(id).at(-1)?.error;
    };
    expect(await errorOf('dump')).toMatch(/^the payload is too large: 70\d{3} bytes, at most 61440$/);
    expect(await errorOf('measure')).toMatch(/^invalid payload/);
    expect(await errorOf('watch')).toMatch(/^invalid payload/);
    expect(await errorOf('cry')).toBe(`${'x'.repeat(499)}\ufffd`);
    expect(await errorOf('hiss')).toBe('a\ufffdb');
    await until(() => expect(device.waiting).toBe(0));
    cloud.cut();
    expect(await device.report({ on: true })).toBe(true);
  });

  it('are not started after they have expired', async () => {
    let ran = 0;
    await startOnline({ commands: { turn_on: () => void ran++ } });
    const id = cloud.command('turn_on', {}, { expires_at: Date.now() - 1_000 });
    await until(() => expect(cloud.acks(id)).toHaveLength(1));
    expect(cloud.acks(id)).toEqual([{ command_id: id, status: 'failed', error: 'the command has expired' }]);
    expect(ran).toBe(0);
  });

  it('run once: a repeat gets the former outcome, without its state', async () => {
    let ran = 0;
    await startOnline({ commands: { count: () => ({ result: ++ran, state: { ran } }) } });
    const id = cloud.command('count');
    await until(() => expect(cloud.acks(id)).toHaveLength(2));
    cloud.command('count', {}, { command_id: id, expires_at: 1 });
    await until(() => expect(cloud.acks(id)).toHaveLength(3));
    expect(cloud.acks(id).at(-1)).toEqual({ command_id: id, status: 'succeeded', result: 1 });
    expect(ran).toBe(1);
  });

  it('that are still running answer a repeat with their progress', async () => {
    let finish = () => {};
    await startOnline({
      commands: {
        wait: (_, { progress }) => {
          progress(10);
          return new Promise((resolve) => {
            finish = () => resolve({});
          });
        },
      },
    });
    const id = cloud.command('wait');
    await until(() => expect(cloud.acks(id)).toHaveLength(2));
    cloud.command('wait', {}, { command_id: id });
    await until(() =>
      expect(cloud.acks(id).map(({ status }) => status)).toEqual(['accepted', 'in_progress', 'in_progress']),
    );
    finish();
    await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('succeeded'));
  });

  it('are remembered up to the last 32', async () => {
    let ran = 0;
    await startOnline({ commands: { count: () => ({ result: ++ran }) } });
    const ids = Array.from({ length: 33 }, () => cloud.command('count'));
    await until(() => expect(cloud.acks()).toHaveLength(66));
    cloud.command('count', {}, { command_id: ids[1] as string });
    await until(() => expect(cloud.acks(ids[1])).toHaveLength(3));
    expect(ran).toBe(33);
    cloud.command('count', {}, { command_id: ids[0] as string });
    await until(() => expect(ran).toBe(34));
  });

  it('are acknowledged even after a lost connection', async () => {
    cloud.acknowledges = false;
    let finish = () => {};
    const running = new Promise<undefined>((resolve) => {
      finish = () => resolve(undefined);
    });
    const commands = { wait: () => running };
    const device = await startOnline({ commands });
    const id = cloud.command('wait');
    await until(() => expect(cloud.acks(id)).toHaveLength(1));
    const offline = once(device, 'offline');
    cloud.cut();
    await offline;
    finish();
    cloud.acknowledges = true;
    await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('succeeded'));
    expect(cloud.refused).toEqual([]);
  });
});
