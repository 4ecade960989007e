import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DeviceMemory, fileStore, memoryStore, Saver } from '../../src/device/store.ts';

const memory: DeviceMemory = {
  nextSequence: 7,
  state: { on: true, nested: { a: [1, null] } },
  cloudPublicKeys: ['key'],
  commands: [{ commandId: 'c', status: 'succeeded', outcome: { result: 1 } }],
  waiting: [{ messageId: 'm', type: 'state', payload: { state: { on: true } }, sequence: null }],
};

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'device-store-'));
});
afterEach(() => rm(folder, { recursive: true }));

describe.each(['memory', 'file'])('a %s store', (kind) => {
  it('returns what was saved last', async () => {
    const store = kind === 'file' ? fileStore(join(folder, 'device.json')) : memoryStore();
    expect(await store.load()).toBeNull();
    await store.save({ ...memory, nextSequence: 6 });
    await store.save(memory);
    expect(await store.load()).toEqual(memory);
  });
});

describe('a file store', () => {
  it('is readable by its owner only, and leaves no other file', async () => {
    const path = join(folder, 'device.json');
    await fileStore(path).save(memory);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(memory);
    await expect(stat(`${path}.next`)).rejects.toThrow('ENOENT');
  });

  it.each(['', '{', 'null', '[]', '{}', '{"nextSequence":"1"}', '{"nextSequence":1,"state":{},"waiting":[]}'])(
    'that contains %j is reported as damaged, not treated as empty',
    async (text) => {
      const path = join(folder, 'device.json');
      await writeFile(path, text);
      await expect(fileStore(path).load()).rejects.toThrow('is damaged');
    },
  );

  it('that cannot be read is not treated as empty', async () => {
    await expect(fileStore(folder).load()).rejects.toThrow('EISDIR');
  });
});

describe('a saver', () => {
  it('coalesces changes during a save into one further save', async () => {
    const saved: number[] = [];
    const gates: (() => void)[] = [];
    const store = {
      load: async () => null,
      save: (next: DeviceMemory) => {
        saved.push(next.nextSequence);
        return new Promise<void>((resolve) => gates.push(resolve));
      },
    };
    let sequence = 1;
    const saver = new Saver(
      store,
      () => ({ ...memory, nextSequence: sequence }),
      () => {},
    );
    const first = saver.save();
    await Promise.resolve();
    const others = [2, 3, 4].map((n) => {
      sequence = n;
      return saver.save();
    });
    gates.shift()?.();
    await first;
    expect(saved).toEqual([1, 4]);
    gates.shift()?.();
    await Promise.all(others);
    expect(saved).toEqual([1, 4]);
  });

  it('continues after a failed save', async () => {
    const faults: unknown[] = [];
    let broken = true;
    const kept = memoryStore();
    const save = (next: DeviceMemory) => (broken ? Promise.reject(new Error('full')) : kept.save(next));
    const saver = new Saver(
      { load: kept.load, save },
      () => memory,
      (error) => faults.push(error),
    );
    await saver.save();
    expect(faults).toEqual([new Error('full')]);
    broken = false;
    await saver.save();
    expect(await kept.load()).toEqual(memory);
  });

  it('without a store resolves at once', async () => {
    await new Saver(
      undefined,
      () => memory,
      () => {},
    ).save();
  });
});
