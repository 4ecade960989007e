import { v7 } from 'uuid';
import { describe, expect, it, vi } from 'vitest';
import type { Memory, MemoryKind } from '../../../src/domain/memory.ts';
import type { Scope } from '../../../src/domain/scopes.ts';
import type { Principal } from '../../../src/domain/values.ts';
import { expectReached, fc, runs } from '../../support/properties.ts';
import { slow } from '../../support/slow.ts';
import { makeTestTenant } from '../../support/test-tenant.ts';
import { cognition, withCognition, world } from './cognition-requests.ts';

withCognition();

/** Per kind: what a sidecar gets at most. */
const MOST: Readonly<Record<MemoryKind, number>> = { preference: 100, routine: 100, observation: 50 };
const kinds = Object.keys(MOST) as MemoryKind[];

type Author = Pick<Memory, 'writer' | 'adoption' | 'source'>;

/** Authors in a new tenant: those whose memories may be planned with, and those whose may not. */
async function makeAuthors() {
  const { tenantId, userId, call } = await makeTestTenant(world.service);
  const key = (await call('POST', '/auth/api-keys', { name: 'k', scopes: ['write:memory'] })).body.prefix;
  const author = (by: Partial<Principal>, scopes: readonly Scope[] | null = null): Author => ({
    writer: { by: { kind: 'user', id: userId, ...by }, scopes },
    ...{ adoption: null, source: by.key === undefined ? `user:${by.id ?? userId}` : `key:${by.key}` },
  });
  const person = author({ person: true, via: 'rest' });
  const left = author({ id: v7(), person: true, via: 'rest' });
  const adoptedBy = ({ writer }: Author): Author => ({
    ...author({ key, person: false }),
    adoption: writer === null ? null : { ...writer, at: 1 },
  });
  return {
    tenantId,
    // Observations are not adopted.
    permitted: [person, author({ person: true }, ['write:memory', 'execute:commands']), adoptedBy(person)],
    refused: [
      ...[left, adoptedBy(left), { ...left, writer: null }],
      ...[author({ person: true }, ['write:memory']), author({ key, person: false }, ['write:memory'])],
      ...[author({ key: 'revoked1', person: false }), { ...author({ key: 'revoked1' }), writer: null }],
    ],
  };
}

describe('the memories for the sidecar', () => {
  it('are the newest of those that may be planned with, however many others are newer', slow, async () => {
    let reached = 0;
    const permittedAt = fc.array(fc.tuple(fc.nat(499), fc.nat(2), fc.nat(2)), { minLength: 60, maxLength: 300 });
    const property = fc.asyncProperty(permittedAt, fc.constantFrom(...kinds), async (places, crowded) => {
      const { tenantId, permitted, refused } = await makeAuthors();
      const expected: Record<MemoryKind, string[]> = { preference: [], routine: [], observation: [] };
      let createdAt = world.service.clock.now();
      const insert = async (kind: MemoryKind, author: Author) => {
        const id = v7();
        const content = { subject: null, content: 'The lamp is on.', tags: [] };
        createdAt += 1;
        const memory: Memory = { ...{ id, tenantId, kind, createdAt, expiresAt: null }, ...content, ...author };
        expect(await world.service.store.memories.insert(memory, 10_000)).toBe(true);
        return id;
      };
      // One from before all others, and others between them.
      expected[crowded].push(await insert(crowded, permitted[0] as Author));
      for (let n = 0; n < 500; n++) {
        for (const [, kind, author] of places.filter(([place]) => place === n)) {
          const chosen = kinds[kind] as MemoryKind;
          const writer = permitted[chosen === 'observation' ? author % 2 : author] as Author;
          expected[chosen].push(await insert(chosen, writer));
        }
        await insert(crowded, refused[n % refused.length] as Author);
      }
      const read = await cognition.memories(tenantId);
      for (const kind of kinds) {
        const newest = expected[kind].reverse().slice(0, MOST[kind]);
        expect(read.filter((one) => one.kind === kind).map(({ id }) => id)).toEqual(newest);
        reached += newest.length;
      }
    });
    await fc.assert(property, runs(3));
    expectReached(() => expect(reached).toBeGreaterThan(100));
  });

  it('cost ten pages of a kind at most, however many different authors are refused', slow, async () => {
    const { tenantId, permitted } = await makeAuthors();
    const { memories } = world.service.store;
    const writer = (id: string) => ({ by: { kind: 'user' as const, id, person: true, via: 'rest' }, scopes: null });
    const insert = async (author: Author, createdAt: number) => {
      const content = { subject: null, content: 'The lamp is on.', tags: [] };
      const memory: Memory = {
        ...{ id: v7(), tenantId, kind: 'observation', createdAt, expiresAt: null },
        ...content,
        ...author,
      };
      expect(await memories.insert(memory, 10_000)).toBe(true);
      return memory.id;
    };
    const now = world.service.clock.now();
    for (let n = 0; n < 700; n++) {
      const id = v7();
      await insert({ writer: writer(id), adoption: null, source: `user:${id}` }, now + n);
    }
    const newest = await insert(permitted[0] as Author, now + 700);
    const list = vi.spyOn(memories, 'list');
    expect((await cognition.memories(tenantId)).map(({ id }) => id)).toEqual([newest]);
    // One page of each of the other kinds, which are empty.
    expect(list).toHaveBeenCalledTimes(12);
  });
});
