import { describe, expect, it } from 'vitest';
import { memoryStore } from '../../src/device/store.ts';
import { cloud, start, startOnline, until, withSmallCloud } from './device-fixture.ts';

withSmallCloud();

describe('the memory of a device', () => {
  it('restores state, numbers, commands and unacknowledged messages in the next run', async () => {
    const store = memoryStore();
    const commands = { count: () => ({ result: 1, state: { counted: true } }) };
    const first = await startOnline({ store, commands });
    const id = cloud.command('count');
    await until(() => expect(first.waiting).toBe(0));
    await until(() => expect(cloud.acks(id)).toHaveLength(2));
    cloud.acknowledges = false;
    const lost = first.report({ n: 1 });
    await until(() => expect(cloud.payloads('state')).toHaveLength(1));
    await first.close(0);
    expect(await lost).toBe(false);

    cloud.acknowledges = true;
    const second = await startOnline({ store, commands });
    expect(second.state).toEqual({ counted: true, n: 1 });
    await until(() => expect(cloud.payloads('state')).toHaveLength(2));
    const [before, after] = cloud.received.filter((message) => message.channel === 'state');
    expect(after?.fields.message_id).toBe(before?.fields.message_id);
    expect(after?.fields.sequence_number).toBe(before?.fields.sequence_number);
    cloud.command('count', {}, { command_id: id });
    await until(() => expect(cloud.acks(id).at(-1)).toEqual({ command_id: id, status: 'succeeded', result: 1 }));
    expect(cloud.acks(id)).toHaveLength(3);
    expect(cloud.refused).toEqual([]);
  });

  it('answers for a command that a restart interrupted', async () => {
    const store = memoryStore();
    let aborted = false;
    const commands = {
      wait: (_: object, { signal }: { signal: AbortSignal }) =>
        new Promise<undefined>(() => {
          signal.addEventListener('abort', () => {
            aborted = true;
          });
        }),
    };
    const first = await startOnline({ store, commands });
    const id = cloud.command('wait');
    await until(() => expect(cloud.acks(id)).toHaveLength(1));
    await first.close();
    expect(aborted).toBe(true);
    await startOnline({ store, commands });
    cloud.command('wait', {}, { command_id: id });
    await until(() => expect(cloud.acks(id).at(-1)?.status).toBe('failed'));
    expect(cloud.acks(id).at(-1)?.error).toBe('the device restarted while running this command');
  });

  it('is stored before a handler starts', async () => {
    const store = memoryStore();
    let seen: unknown;
    const look = async () => {
      seen = await store.load();
      return {};
    };
    const commands = { look };
    await startOnline({ store, commands });
    const id = cloud.command('look');
    await until(() => expect(seen).toMatchObject({ commands: [{ commandId: id, status: 'accepted' }] }));
  });

  it('that cannot be stored emits a fault, and the device continues', async () => {
    const store = { load: async () => null, save: () => Promise.reject(new Error('disk full')) };
    const device = await start({ store });
    const faults: unknown[] = [];
    device.on('fault', (error) => faults.push(error));
    expect(await device.report({ on: true })).toBe(true);
    expect(faults[0]).toEqual(new Error('disk full'));
  });
});
