import { describe, expect, it } from 'vitest';
import type { Memory, MemoryAuthor } from '../../../src/domain/memory.ts';
import type { Scope } from '../../../src/domain/scopes.ts';
import type { MemoryFilter } from '../../../src/store/contract/memories.ts';
import { idempotencyRow, newId } from '../../support/actor-commits.ts';
import { fc } from '../../support/properties.ts';
import { eachStore } from '../../support/store.ts';

const MOST = 10_000;

eachStore('agent memory', (backend) => {
  const store = () => backend().store.memories;
  let at = 1_000_000;
  const memory = (tenantId: string, more: Partial<Memory> = {}): Memory => ({
    ...{ id: newId(), tenantId, kind: 'observation', subject: null, content: 'The lamp is on.', tags: [] },
    ...{ source: 'user:u', writer: null, adoption: null, createdAt: ++at, expiresAt: null },
    ...more,
  });
  const keep = async (tenantId: string, more: Partial<Memory> = {}, most = MOST): Promise<Memory> => {
    const made = memory(tenantId, more);
    expect(await store().insert(made, most)).toBe(true);
    return made;
  };
  const found = async (tenantId: string, filter: MemoryFilter = {}, now = at) =>
    (await store().list(tenantId, filter, now, 200)).items.map(({ id }) => id);

  it('returns stored entries newest first, in pages that insertions do not shift', async () => {
    const tenant = newId();
    const all = [
      await keep(tenant, {
        kind: 'routine',
        subject: 'bedroom',
        content: 'a\nb',
        tags: ['b', 'a'],
        expiresAt: at + 9e9,
      }),
      await keep(tenant),
      // With equal times the id decides.
      await keep(tenant, { createdAt: at }),
    ].reverse();
    expect((await store().list(tenant, {}, at, 9)).items).toEqual(all);
    const first = await store().list(tenant, {}, at, 2);
    expect(first.items).toEqual(all.slice(0, 2));
    await keep(tenant);
    const second = await store().list(tenant, {}, at, 2, first.next ?? undefined);
    expect(second).toMatchObject({ items: all.slice(2), next: null });
  });

  it('filters suggestions: what no person has written or adopted', async () => {
    const tenant = newId();
    const routine = (more: Partial<Memory>) => keep(tenant, { kind: 'routine', ...more });
    const by = (more: object) => ({ by: { kind: 'user' as const, id: newId(), ...more }, scopes: null });
    const person = by({ person: true });
    const others = [
      await routine({ writer: { ...person, scopes: ['write:memory', 'execute:commands'] } }),
      await routine({ source: 'user:u' }),
      await routine({ source: 'key:k', writer: by({ person: false, key: 'k' }), adoption: { ...person, at: 7 } }),
      await keep(tenant, { source: 'key:k', writer: by({ person: false, key: 'k' }) }),
    ];
    const suggestions = [
      await routine({ source: 'key:k' }),
      await routine({ source: 'twinkeep' }),
      await routine({ source: 'key:k', writer: by({ person: false, key: 'k' }) }),
      await routine({ source: 'user:u', writer: by({ person: false, via: 'mcp' }) }),
    ];
    const newestFirst = (all: Memory[]) => [...all].reverse();
    expect((await store().list(tenant, { suggestion: true }, at, 9)).items).toEqual(newestFirst(suggestions));
    expect((await store().list(tenant, { suggestion: false }, at, 9)).items).toEqual(newestFirst(others));
    expect(await found(tenant, { suggestion: true, text: 'lamp' })).toHaveLength(4);
  });

  it('leaves out the memories of given authors, whatever else they have in common', async () => {
    const tenant = newId();
    const [one, other] = [newId(), newId()];
    const by = (id: string, scopes: ('write:memory' | 'execute:commands')[] | null = null, more = {}) => ({
      by: { kind: 'user' as const, id, ...more },
      scopes,
    });
    const memories = [
      await keep(tenant, { writer: by(one) }),
      await keep(tenant, { writer: by(one, ['write:memory']) }),
      await keep(tenant, { writer: by(one, null, { key: 'k' }) }),
      await keep(tenant, { writer: by(other), adoption: { ...by(one), at: 7 } }),
      await keep(tenant, { source: 'user:u' }),
      await keep(tenant, { source: 'key:k' }),
    ];
    const without = async (...notBy: MemoryAuthor[]) => {
      const ids = await found(tenant, { notBy });
      return memories.flatMap(({ id }, index) => (ids.includes(id) ? [] : [index]));
    };
    expect(await without()).toEqual([]);
    expect(await without(by(one))).toEqual([0, 3]);
    expect(await without(by(one, ['write:memory']), by(other))).toEqual([1]);
    expect(await without(by(one, null, { key: 'k' }), 'user:u')).toEqual([2, 4]);
    expect(await found(tenant, { notBy: [by(one)], text: 'lamp' })).toHaveLength(4);
  });

  it('finds entries of the tenant by id, and adopts them', async () => {
    const tenant = newId();
    const memory = await keep(tenant, { kind: 'routine', source: 'key:k' });
    const expired = await keep(tenant, { kind: 'routine', expiresAt: at });
    const ids = [memory.id, expired.id, newId()];
    expect(await store().find(tenant, ids, at)).toEqual([memory]);
    expect(await store().find(newId(), ids, at)).toEqual([]);
    const adoption = { by: { kind: 'user' as const, id: newId(), person: true }, scopes: null, at };
    const refused = idempotencyRow();
    for (const [owner, id] of [[newId(), memory.id] as const, [tenant, expired.id] as const])
      expect(await store().adopt(owner, id, adoption, refused)).toBeNull();
    expect(await backend().store.idempotency.find(refused)).toBeNull();
    const also = idempotencyRow();
    expect(await store().adopt(tenant, memory.id, adoption, also)).toEqual({ ...memory, adoption });
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    expect(await store().find(tenant, ids, at)).toEqual([{ ...memory, adoption }]);
  });

  it('filters by kind, subject, tag and text combined', async () => {
    const tenant = newId();
    const warm = await keep(tenant, { kind: 'preference', subject: 'living room', content: 'warm light', tags: ['x'] });
    await keep(tenant, { kind: 'preference', subject: 'living room', content: 'cold light', tags: ['x'] });
    await keep(tenant, { kind: 'routine', subject: 'living room', content: 'warm light', tags: ['x'] });
    await keep(tenant, { kind: 'preference', subject: 'bath', content: 'warm light', tags: ['x'] });
    await keep(tenant, { kind: 'preference', subject: 'living room', content: 'warm light', tags: ['X', 'xx'] });
    const filter = { kind: 'preference', subject: 'living room', tag: 'x', text: 'light warm' } as const;
    expect(await found(tenant, filter)).toEqual([warm.id]);
    expect(await found(tenant, { tag: 'x' })).toHaveLength(4);
    expect(await found(tenant, { subject: 'Bath' })).toEqual([]);
  });

  describe('full text', () => {
    const tenant = newId();
    const texts: Record<string, Partial<Memory>> = {
      evening: { content: 'In the evening: living_room at 21.5 °C.Then warm/white light.' },
      morning: { content: 'Im Morgen KÜCHE heizen', subject: 'küche' },
      night: { content: 'gute Nacht', tags: ['schlaf-zimmer', 'Evening'] },
      japanese: { content: '夜は暖房を切る' },
      thai: { content: 'เปิดไฟห้องนอน' },
      russian: { content: 'Вечером ТЁПЛЫЙ свет' },
    };
    const cases: [query: string, names: string[]][] = [
      ['evening', ['night', 'evening']],
      ['EVENING light', ['evening']],
      ['evening -light', ['night']],
      ['-evening', ['russian', 'thai', 'japanese', 'morning']],
      ['light or nacht', ['night', 'evening']],
      ['"warm white"', ['evening']],
      ['"white warm"', []],
      ['white warm then', ['evening']],
      ['21.5', ['evening']],
      ['5.21', []],
      ['living room', ['evening']],
      ['Küche', ['morning']],
      ['KÜCHE', ['morning']],
      ['schlaf', ['night']],
      ['暖房', ['japanese']],
      ['房暖', []],
      ['夜 切る', ['japanese']],
      ['ห้อง', ['thai']],
      ['тёплый', ['russian']],
      ['!!! & | -', []],
      ['   ', []],
      ["'; drop table memories; --", []],
      ["light' | 'x", []],
    ];

    it('finds terms in any language, phrases, alternatives and exclusions', async () => {
      const names = new Map<string, string>();
      for (const [name, more] of Object.entries(texts)) names.set((await keep(tenant, more)).id, name);
      for (const [text, expected] of cases) {
        const ids = await found(tenant, { text });
        expect([text, ids.map((id) => names.get(id))]).toEqual([text, expected]);
      }
    });

    it('accepts any text as a query', async () => {
      const part = fc.oneof(
        fc.constantFrom('"', '-', ' ', '|', '&', '!', '(', ')', '<->', ':*', "'", '\\', 'or', 'light', '暖', '$1', '%'),
        fc.string({ unit: 'grapheme', maxLength: 6 }),
      );
      const query = fc.array(part, { maxLength: 20 }).map((parts) => parts.join('').replaceAll('\0', ''));
      await fc.assert(
        fc.asyncProperty(query, async (text) => void (await found(tenant, { text }))),
        { numRuns: 150 },
      );
    });

    it('finds every text by each of its terms', async () => {
      const separate = newId();
      const word = fc.constantFrom('light', 'Café', 'ΟΔΟΣ', 'STRASSE', 'ночь', '電気', 'İstanbul', 'x2', '7', 'अलमारी');
      await fc.assert(
        fc.asyncProperty(fc.array(word, { minLength: 1, maxLength: 5 }), fc.nat(4), async (words, n) => {
          const { id } = await keep(separate, { content: words.join(' ') });
          expect(await found(separate, { text: (words[n % words.length] as string).toUpperCase() })).toContain(id);
        }),
        { numRuns: 60 },
      );
    });

    it('stores terms that are too long for the index, and many terms', async () => {
      const long = await keep(tenant, { content: `${'y'.repeat(4_000)} short` });
      const many = await keep(tenant, { content: 'ﷺ'.repeat(1_365) });
      expect(await found(tenant, { text: 'short' })).toEqual([long.id]);
      expect(await found(tenant, { text: 'ﷺ' })).toEqual([many.id]);
    });
  });

  it('of one tenant is not found by another, for any query', async () => {
    const [mine, theirs] = [newId(), newId()];
    const { id } = await keep(theirs, { content: `secret ${mine.replaceAll('-', '')} ${mine}` });
    for (const text of [
      'secret',
      '-nothing',
      mine,
      mine.replaceAll('-', ''),
      `${theirs.replaceAll('-', '')} or secret`,
    ]) {
      expect(await found(mine, { text })).toEqual([]);
    }
    expect(await store().delete(mine, id, at)).toBe(false);
    expect(await store().delete(theirs, id, at)).toBe(true);
    expect(await store().delete(theirs, id, at)).toBe(false);
    expect(await found(theirs)).toEqual([]);
  });

  it('expires at its time: listed, found and deletable a millisecond before, and not afterwards', async () => {
    const tenant = newId();
    const { id, createdAt } = await keep(tenant, { content: 'for a while', expiresAt: at + 1_000 });
    const end = createdAt + 999;
    for (const filter of [{}, { text: 'while' }]) {
      expect(await found(tenant, filter, end - 1)).toEqual([id]);
      expect(await found(tenant, filter, end)).toEqual([]);
    }
    expect(await store().delete(tenant, id, end)).toBe(false);
    expect(await store().delete(tenant, id, end - 1)).toBe(true);
  });

  it('is pruned in batches after its expiry, and not before', async () => {
    const tenant = newId();
    for (let n = 0; n < 5; n++) await keep(tenant, { expiresAt: at + 100 });
    const later = await keep(tenant, { expiresAt: at + 500 });
    const never = await keep(tenant);
    // At time 0 nothing has expired.
    const rows = async () => (await found(tenant, {}, 0)).length;
    const { retention } = backend().store;
    const days = { commands: 90, journal: 365 };
    await retention.prune(at, days, 2);
    expect(await rows()).toBe(7);
    await retention.prune((later.expiresAt ?? 0) - 1, days, 2);
    expect(await found(tenant, {}, at)).toEqual([never.id, later.id]);
    expect(await rows()).toBe(2);
  });

  it('beyond its limit drops expired entries, then the oldest observation, and no others', async () => {
    const tenant = newId();
    const other = await keep(newId());
    const preference = await keep(tenant, { kind: 'preference' }, 4);
    const old = await keep(tenant, {}, 4);
    const young = await keep(tenant, {}, 4);
    const brief = await keep(tenant, { kind: 'routine', expiresAt: at + 2 }, 4);
    at += 10;
    const fifth = await keep(tenant, { kind: 'preference' }, 4);
    expect(await found(tenant, {}, brief.createdAt)).toEqual([fifth, young, old, preference].map(({ id }) => id));
    const sixth = await keep(tenant, { kind: 'routine' }, 4);
    expect(await found(tenant)).toEqual([sixth, fifth, young, preference].map(({ id }) => id));
    const seventh = await keep(tenant, {}, 4);
    const eighth = await keep(tenant, { kind: 'routine' }, 4);
    expect(await found(tenant)).toEqual([eighth, sixth, fifth, preference].map(({ id }) => id));
    expect(await found(tenant)).not.toContain(seventh.id);

    const also = idempotencyRow();
    expect(await store().insert(memory(tenant), 4, also)).toBe(false);
    expect(await backend().store.idempotency.find(also)).toBeNull();
    expect(await found(tenant)).toEqual([eighth, sixth, fifth, preference].map(({ id }) => id));
    expect(await found(other.tenantId)).toEqual([other.id]);
  });

  it('counts suggestions apart from other memories, and displaces the oldest of them', async () => {
    const tenant = newId();
    const by = (scopes: Scope[] | null) => ({ by: { kind: 'user' as const, id: 'u', person: true }, scopes });
    const suggested = (more: Partial<Memory> = {}) => keep(tenant, { kind: 'routine', source: 'key:k', ...more }, 2);
    const observation = await keep(tenant, {}, 2);
    const first = await suggested();
    const second = await suggested({ source: 'user:u', writer: by(['write:memory']) });
    expect(await found(tenant, { suggestion: true })).toEqual([second.id, first.id]);
    const steering = await keep(tenant, { kind: 'routine', writer: by(['*:commands']) }, 2);
    const third = await suggested();
    expect(await found(tenant, { suggestion: true })).toEqual([third.id, second.id]);
    expect(await found(tenant, { suggestion: false })).toEqual([steering.id, observation.id]);
    const last = await keep(tenant, { kind: 'routine', writer: by(null) }, 2);
    expect(await found(tenant, { suggestion: false })).toEqual([last.id, steering.id]);
    expect(await store().insert(memory(tenant, { kind: 'routine', writer: by(null) }), 2)).toBe(false);
  });

  it('is stored with the stored response of the request, or not at all', async () => {
    const tenant = newId();
    const also = idempotencyRow();
    const made = memory(tenant);
    await store().insert(made, MOST, also);
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    const again = idempotencyRow();
    await expect(store().insert(made, MOST, again)).rejects.toThrow();
    expect(await backend().store.idempotency.find(again)).toBeNull();
  });
});
