import { describe, expect, it } from 'vitest';
import { loadAgentTokens } from '../../src/services/agent-tokens.ts';
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
    expect([...store.agentTokens]).toEqual([[expect.not.stringContaining('jti'), expiresAt + 30_000]]);
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
    expect([...store.agentTokens.values()]).toEqual([expiresAt + 86_430_000]);
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
