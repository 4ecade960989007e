import { beforeEach, describe, expect, it } from 'vitest';
import { EventFailed, Quarantined } from '../../src/actors/contract.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { StoredActor } from '../../src/store/contract/actor-rows.ts';
import { DataRefused, StoreUnavailable } from '../../src/store/contract.ts';
import { eventLoopTurns, eventually } from '../support/clock.ts';
import { lamp } from '../support/memory-actor-store.ts';
import { clock, event, make, ref, restart, runtime, store, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('a failing event does not affect others', () => {
  it('refuses the one event a machine throws on', async () => {
    await make('a');
    const results = await Promise.allSettled([
      runtime.actors.send(ref('a'), event('press')),
      runtime.actors.send(ref('a'), event('boom')),
      runtime.actors.send(ref('a'), event('press')),
    ]);
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(store.rows.get('device:a')?.version).toBe(3);
  });

  it('quarantines an actor that throws three times in a minute, and releases it', async () => {
    await make('a');
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    clock.advance(61_000);
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    expect(store.quarantines).toEqual([]);
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    expect(store.quarantines).toEqual([['device:a', 'boom']]);
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(Quarantined);
    expect(await runtime.actors.releaseQuarantine(ref('a'))).toBe(true);
    expect((await runtime.actors.send(ref('a'), event('press'))).understood).toBe(true);
    expect(await runtime.actors.releaseQuarantine(ref('nobody'))).toBe(false);
  });

  describe('an actor that is passivated after each commit', () => {
    beforeEach(() => {
      runtime.halt();
      restart({}, { definitions: () => ({ ...lamp, canPassivate: () => true }) as unknown as MachineDefinition });
    });

    it('leaves memory with its commit, and is loaded for its next event', async () => {
      await make('a');
      expect([runtime.actors.peek(ref('a')), store.loads]).toEqual([undefined, []]);
      expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
      expect(store.loads).toEqual([['a']]);
    });

    it('still counts its exceptions', async () => {
      await make('a');
      for (let n = 0; n < 3; n += 1) {
        await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
      }
      expect(store.quarantines).toEqual([['device:a', 'boom']]);
      await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(Quarantined);
    });

    it('keeps the new actor if a read that started before its creation finds nothing', async () => {
      let answer = () => {};
      // Returns the result as of the time of the call.
      store.load = () =>
        new Promise((resolve) => {
          answer = () => resolve([]);
        });
      const read = runtime.actors.read(ref('a'));
      await eventLoopTurns(2);
      await make('a');
      const pressed = runtime.actors.send(ref('a'), event('press'));
      answer();
      expect((await pressed).version).toBe(2);
      expect((await read)?.version).toBe(1);
    });
  });

  it.each(['refused', 'outrun'] as const)(
    'answers the events decided before its quarantine, if it is released before a commit that is %s',
    async (how) => {
      await make('a');
      let end = () => {};
      store.beforeCommit = () => {
        store.beforeCommit = () => {};
        return new Promise<void>((resolve, reject) => {
          end = () => (how === 'refused' ? reject(new StoreUnavailable('gone')) : resolve());
        });
      };
      const boom = () => runtime.actors.send(ref('a'), event('boom'));
      const sent = [boom(), boom(), boom(), runtime.actors.send(ref('a'), event('press'))];
      const ends = Promise.allSettled(sent);
      await eventually(() => store.quarantines.length === 1);
      await runtime.actors.releaseQuarantine(ref('a'));
      if (how === 'outrun') (store.rows.get('device:a') as StoredActor).version = 7;
      end();
      expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'fulfilled']);
      expect(runtime.actors.stats().waiting).toBe(0);
    },
  );

  it('bisects a batch with rejected data until the poison event is isolated', async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `d${index}`);
    await Promise.all(ids.map((id) => make(id)));
    store.beforeCommit = (batch) => {
      if (JSON.stringify(batch.actors.map((actor) => actor.fixed)).includes('poison')) {
        throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
      }
    };
    const results = await Promise.allSettled([
      ...ids.map((id) => runtime.actors.send(ref(id), event('press'))),
      runtime.actors.send(ref('d30'), event('note', { text: 'poison' })),
      runtime.actors.send(ref('d30'), event('press')),
    ]);
    expect(results.filter((result) => result.status === 'rejected')).toHaveLength(1);
    expect(results[60]?.status).toBe('rejected');
    expect(store.rows.get('device:d30')?.value).toBe('off');
    expect(store.rows.get('device:d59')?.value).toBe('on');
  });

  it('refuses a creating event with rejected data, and leaves no actor behind', async () => {
    store.beforeCommit = () => {
      throw new DataRefused('23505', 'duplicate key');
    };
    await expect(make('a')).rejects.toThrow(EventFailed);
    store.beforeCommit = () => {};
    expect(await runtime.actors.read(ref('a'))).toBeNull();
    expect((await make('a')).version).toBe(1);
  });
});
