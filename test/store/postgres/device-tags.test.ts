import { expect, it } from 'vitest';
import type { DeviceFilter, Position } from '../../../src/store/contract.ts';
import { deviceCommit, newId, nextCommit } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

eachStore('tags of devices', (backend) => {
  const devices = () => backend().store.devices;
  const commit = (...commits: ReturnType<typeof deviceCommit>[]) => backend().store.actors.commit(commits);

  /** A device with tags, as its actor would store it. */
  const taggedCommit = (tenantId: string, tags: string[], createdAt: number, name = 'Lamp') => {
    const id = newId();
    return deviceCommit({
      ...{ id, tenantId, fixed: { name, tags }, columns: { created_at: createdAt } },
      rows: [{ type: 'tags.change', deviceId: id, deviceCreatedAt: createdAt, added: tags, removed: [] }],
    });
  };
  async function made(tenantId: string, ...all: string[][]): Promise<string[]> {
    const commits = all.map((tags, n) => taggedCommit(tenantId, tags, n));
    await commit(...commits);
    return commits.map(({ ref }) => ref.id);
  }
  async function listed(tenantId: string, filter: DeviceFilter, limit = 2): Promise<string[]> {
    const ids: string[] = [];
    let after: Position | undefined;
    do {
      const page = await devices().list(tenantId, filter, limit, after);
      ids.push(...page.items.map(({ id }) => id));
      after = page.next ?? undefined;
    } while (after !== undefined);
    return ids;
  }

  it('filter the list, which has all of them, newest first, in pages', async () => {
    const tenantId = newId();
    const [a = '', ab = '', abc = '', , b = ''] = await made(
      tenantId,
      ...[['a'], ['a', 'b'], ['a', 'b', 'c'], [], ['b'], ['a-b', 'ab']],
    );
    expect(await listed(tenantId, { tags: ['a'] })).toEqual([abc, ab, a]);
    expect(await listed(tenantId, { tags: ['b', 'a'] })).toEqual([abc, ab]);
    expect(await listed(tenantId, { tags: ['b'] }, 1)).toEqual([b, abc, ab]);
    expect(await listed(tenantId, { tags: ['a', 'b', 'c'] })).toEqual([abc]);
    expect(await listed(tenantId, { tags: ['a', 'd'] })).toEqual([]);
    expect(await listed(tenantId, { tags: ['a'], ids: [a, b] })).toEqual([a]);
    expect(await listed(tenantId, { tags: ['a'], deviceType: 'smart_lock' })).toEqual([]);
    expect(await listed(newId(), { tags: ['a'] })).toEqual([]);
    const { items } = await devices().list(tenantId, { tags: ['c'] }, 2);
    expect(items).toMatchObject([{ id: abc, tags: ['a', 'b', 'c'] }]);
  });

  it('are shown of each device, and none of a device without tags', async () => {
    const tenantId = newId();
    const plain = deviceCommit({ tenantId });
    await commit(plain);
    expect(await devices().find(tenantId, [plain.ref.id])).toMatchObject([{ tags: [] }]);
  });

  it('are changed with the commit of the device: the last change of a batch counts', async () => {
    const tenantId = newId();
    const first = taggedCommit(tenantId, ['a', 'b'], 5);
    await commit(first);
    const change = (added: string[], removed: string[]) =>
      ({ type: 'tags.change', deviceId: first.ref.id, deviceCreatedAt: 5, added, removed }) as const;
    const second = nextCommit(first, { rows: [change(['c'], ['a']), change(['a'], ['c', 'b']), change([], [])] });
    await commit(second);
    const tagsNow = async () => (await devices().tags(tenantId, 10)).items;
    expect(await tagsNow()).toEqual([{ tag: 'a', devices: 1 }]);
    // A commit that loses against another one changes nothing.
    await commit(nextCommit(first, { rows: [change(['lost'], [])] }));
    expect(await tagsNow()).toEqual([{ tag: 'a', devices: 1 }]);
    await commit(nextCommit(second, { rows: [change([], ['a'])] }));
    expect(await tagsNow()).toEqual([]);
  });

  it('are listed with the number of their devices, in the order of their characters, in pages', async () => {
    const tenantId = newId();
    const [one = '', two = ''] = await made(tenantId, ['b', 'a_1', 'a-1'], ['a', 'b'], ['b']);
    await made(newId(), ['other']);
    const all = [
      ...[
        { tag: 'a', devices: 1 },
        { tag: 'a-1', devices: 1 },
      ],
      ...[
        { tag: 'a_1', devices: 1 },
        { tag: 'b', devices: 3 },
      ],
    ];
    expect((await devices().tags(tenantId, 10)).items).toEqual(all);
    const first = await devices().tags(tenantId, 3);
    expect(first).toMatchObject({ items: all.slice(0, 3), next: { createdAt: 0, id: 'a_1' } });
    expect(await devices().tags(tenantId, 3, first.next ?? undefined)).toMatchObject({ items: [all[3]], next: null });
    expect((await devices().tags(tenantId, 10, undefined, [one, two])).items.at(-1)).toEqual({ tag: 'b', devices: 2 });
    expect((await devices().tags(tenantId, 1, { createdAt: 0, id: 'a' }, [two])).items).toEqual([
      { tag: 'b', devices: 1 },
    ]);
    expect(await devices().tags(tenantId, 10, undefined, [])).toMatchObject({ items: [], next: null });
  });

  it('have no number beyond 1,000 devices', async () => {
    const tenantId = newId();
    const some = Array.from({ length: 1_001 }, (_, n) =>
      taggedCommit(tenantId, n === 0 ? ['all'] : ['all', 'most'], n),
    );
    for (let from = 0; from < some.length; from += 200) await commit(...some.slice(from, from + 200));
    expect((await devices().tags(tenantId, 10)).items).toEqual([
      { tag: 'all', devices: null },
      { tag: 'most', devices: 1_000 },
    ]);
  });

  it('match a search text in any case, like names, types and the start of ids', async () => {
    const tenantId = newId();
    const lamp = taggedCommit(tenantId, ['floor:2'], 1, 'Desk Lamp 100%');
    const door = taggedCommit(tenantId, ['outdoor', 'site'], 2, 'Front _ gate');
    await commit(lamp, door);
    const found = (text: string) => listed(tenantId, { text });
    expect(await found('desk lamp')).toEqual([lamp.ref.id]);
    expect(await found('LOOR:2')).toEqual([lamp.ref.id]);
    expect(await found('smart_L')).toEqual([door.ref.id, lamp.ref.id]);
    expect(await found(door.ref.id.toUpperCase())).toEqual([door.ref.id]);
    expect(await found(door.ref.id.slice(1))).toEqual([]);
    // No character is a pattern, and a text does not run over the end of a tag.
    expect(await found('%')).toEqual([lamp.ref.id]);
    expect(await found(' _ ')).toEqual([door.ref.id]);
    expect(await found('","')).toEqual([]);
    expect(await listed(tenantId, { text: 'gate', tags: ['site'] })).toEqual([door.ref.id]);
    expect(await listed(tenantId, { text: 'lamp', tags: ['site'] })).toEqual([]);
  });
});
