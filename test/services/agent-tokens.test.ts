import { describe, expect, it } from 'vitest';
import { keyEntry, loadAgentTokens, MAX_ENTRIES_PER_USER } from '../../src/services/agent-tokens.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { testClock } from '../support/clock.ts';
import { MemoryStore } from '../support/memory-store.ts';

async function setUp() {
  const clock = testClock();
  const store = new MemoryStore();
  const open = () => loadAgentTokens(store.identity, clock);
  return { clock, store, open, presented: await open() };
}

describe('a presented agent token', () => {
  it('is identified by its issuer and its id, also after a restart', async () => {
    const { clock, store, open, presented } = await setUp();
    const expiresAt = clock.now() + 60_000;
    await presented.add('u1', { id: 'jti', expiresAt });
    expect(['jti', 'other'].map((id) => presented.has('u1', { id }))).toEqual([true, false]);
    expect(presented.has('u2', { id: 'jti' })).toBe(false);
    expect([...store.agentTokens]).toEqual([
      [expect.not.stringContaining('jti'), { expiresAt: expiresAt + 30_000, userId: 'u1' }],
    ]);
    expect((await open()).has('u1', { id: 'jti' })).toBe(true);
    // The process's clock may be wrong: only the store deletes the entry, a day later.
    clock.set(expiresAt + 30_000);
    expect((await open()).has('u1', { id: 'jti' })).toBe(true);
  });

  it('is written once', async () => {
    const { store, clock, presented } = await setUp();
    const token = { id: 'jti', expiresAt: clock.now() + 1_000 };
    await presented.add('u1', token);
    store.agentTokens.clear();
    expect(presented.add('u1', token)).toBeUndefined();
    expect(store.agentTokens.size).toBe(0);
  });

  it('is written again for an expiry that is a day later', async () => {
    const { store, clock, presented } = await setUp();
    const expiresAt = clock.now() + 1_000;
    await presented.add('u1', { id: 'client', expiresAt });
    expect(presented.add('u1', { id: 'client', expiresAt: expiresAt + 86_399_999 })).toBeUndefined();
    await presented.add('u1', { id: 'client', expiresAt: expiresAt + 86_400_000 });
    expect([...store.agentTokens.values()]).toEqual([{ expiresAt: expiresAt + 86_430_000, userId: 'u1' }]);
    expect(presented.add('u1', { id: 'client', expiresAt: expiresAt + 86_400_000 })).toBeUndefined();
  });

  it("no longer counts as a person's while the store is unavailable, and is written later", async () => {
    const { store, clock, presented } = await setUp();
    const token = { id: 'jti', expiresAt: clock.now() + 1_000 };
    store.failCalls = () => {
      throw new StoreUnavailable('away');
    };
    await expect(presented.add('u1', token)).rejects.toBeInstanceOf(StoreUnavailable);
    expect(presented.has('u1', { id: 'jti' })).toBe(true);
    store.failCalls = null;
    await presented.add('u1', token);
    expect(store.agentTokens.size).toBe(1);
  });

  it('is forgotten a day after its expiry, when others arrive', async () => {
    const { clock, presented } = await setUp();
    await presented.add('u1', { id: 'old', expiresAt: clock.now() });
    clock.advance(86_400_000);
    await presented.add('u1', { id: 'new', expiresAt: clock.now() + 1_000 });
    expect(['old', 'new'].map((id) => presented.has('u1', { id }))).toEqual([false, true]);
  });
});

describe('a user with the maximum of presented agent tokens', () => {
  const DAY_MS = 86_400_000;

  async function atMaximum() {
    const parts = await setUp();
    const { clock, presented } = parts;
    const expiresAt = clock.now() + 3_600_000;
    for (let n = 0; n < MAX_ENTRIES_PER_USER; n++) await presented.add('u1', { id: `jti${n}`, expiresAt });
    return { ...parts, expiresAt };
  }

  it('has only agents from the next token on, also after a restart', async () => {
    const { store, open, presented, expiresAt } = await atMaximum();
    expect(presented.has('u1', { id: 'other' })).toBe(false);
    await presented.add('u1', { id: 'one more', expiresAt });
    for (const tokens of [presented, await open()]) {
      expect(tokens.has('u1', { id: 'other' })).toBe(true);
      expect(tokens.has('u1', keyEntry('abcdefgh'))).toBe(true);
      expect(tokens.has('u2', { id: 'other' })).toBe(false);
    }
    for (let n = 0; n < 100; n++) await presented.add('u1', { id: `more${n}`, expiresAt });
    expect(store.agentTokens.size).toBe(MAX_ENTRIES_PER_USER + 1);
    expect(presented.sizes()).toMatchObject({ presented_tokens: MAX_ENTRIES_PER_USER + 1 });
  });

  it('still renews an entry of a client', async () => {
    const { store, presented, expiresAt } = await atMaximum();
    await presented.add('u1', { id: 'jti0', expiresAt: expiresAt + 2 * DAY_MS });
    expect(store.agentTokens.size).toBe(MAX_ENTRIES_PER_USER);
    expect([...store.agentTokens.values()].map((entry) => entry.expiresAt)).toContain(expiresAt + 2 * DAY_MS + 30_000);
  });

  it.each([
    ['a token of this service', 3_600_000, 2 * DAY_MS],
    ['a token of 10 days', 10 * DAY_MS, 11 * DAY_MS + 30_000],
    ['a key without an expiry', Number.MAX_SAFE_INTEGER / 2, 90 * DAY_MS],
  ])('has only agents for a time that covers %s', async (_what, lifeMs, allMs) => {
    const { clock, store, presented } = await atMaximum();
    const now = clock.now();
    await presented.add('u1', { id: 'one more', expiresAt: now + lifeMs });
    expect([...store.agentTokens.values()].at(-1)?.expiresAt).toBe(now + allMs);
  });

  it('has persons again when the tokens have expired', async () => {
    const { clock, presented, expiresAt } = await atMaximum();
    await presented.add('u1', { id: 'one more', expiresAt });
    clock.advance(2 * DAY_MS + 1);
    await presented.add('u2', { id: 'of another user', expiresAt: clock.now() });
    expect(presented.has('u1', { id: 'other' })).toBe(false);
  });
});
