import { expect, it } from 'vitest';
import { newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

const HOUR = 3_600_000;
const days = { commands: 90, journal: 365 };
const nameOf = ({ deviceId, timestamp, nonce }: { deviceId: string; timestamp: number; nonce: string }) =>
  `${deviceId}.${timestamp}.${nonce}`;

eachStore('sign-ins', (backend) => {
  const token = (more: { deviceId?: string; timestamp?: number; nonce?: string } = {}) => ({
    ...{ deviceId: newId(), timestamp: 1_800_000_000_000, nonce: 'abcdefghABCDEFG-' },
    ...more,
  });

  it('marks a token once, alone and in a batch', async () => {
    const { sessionTokens } = backend().store;
    const [first, second] = [token(), token()];
    expect(await sessionTokens.markUsed([first])).toEqual(new Set([nameOf(first)]));
    expect(await sessionTokens.markUsed([first, second])).toEqual(new Set([nameOf(second)]));
    expect(await sessionTokens.markUsed([first, second])).toEqual(new Set());
    const others = [
      { ...first, nonce: 'abcdefghABCDEFG_' },
      { ...first, timestamp: first.timestamp + 1 },
    ];
    expect((await sessionTokens.markUsed(others)).size).toBe(2);
  });

  it('accepts one of two concurrent processes', async () => {
    const { sessionTokens } = backend().store;
    const same = token();
    const answers = await Promise.all([sessionTokens.markUsed([same]), sessionTokens.markUsed([same])]);
    expect(answers.map(({ size }) => size).sort()).toEqual([0, 1]);
  });

  it('keeps tokens for two hours past their expiry', async () => {
    const { sessionTokens, retention } = backend().store;
    const now = Date.now();
    const kept = token({ timestamp: now - 2 * HOUR + 60_000 });
    const gone = [0, 1, 2].map((n) => token({ timestamp: now - 2 * HOUR - 60_000 - n }));
    await sessionTokens.markUsed([kept, ...gone]);
    await retention.prune(now, days, 2);
    expect(await sessionTokens.markUsed([kept, ...gone])).toEqual(new Set(gone.map(nameOf)));
  });
});
