import { describe, expect, it } from 'vitest';
import { IdempotentSender } from '../../../console/src/api/idempotent-sender.ts';
import { Problem, unreachableProblem } from '../../../console/src/api/problem.ts';

const ON = { text: 'turn_on' };
const busy = new Problem({ code: 'RATE_LIMIT_EXCEEDED', detail: 'Too much.', status: 429 });

/** Records the keys of the requests, and returns the given outcomes in order. */
function asking(...outcomes: (Error | string)[]) {
  const keys: string[] = [];
  const request = async (key: string): Promise<string> => {
    keys.push(key);
    const outcome = outcomes[keys.length - 1];
    if (outcome instanceof Error) throw outcome;
    return outcome ?? 'done';
  };
  return { keys, request };
}

describe("a user's request", () => {
  it('is sent once while it runs', async () => {
    const [once, { keys, request }] = [new IdempotentSender(), asking()];
    expect(await Promise.all([once.send(ON, request), once.send(ON, request)])).toEqual(['done', 'done']);
    expect(keys).toHaveLength(1);
  });

  it('keeps its key while its outcome is unknown', async () => {
    const [once, { keys, request }] = [new IdempotentSender(), asking(unreachableProblem())];
    await expect(once.send(ON, request)).rejects.toThrow('does not respond');
    await once.send(ON, request);
    expect(keys[1]).toBe(keys[0]);
    expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  it('gets a new key after a response, after a refusal, and with different content', async () => {
    const [once, { keys, request }] = [new IdempotentSender(), asking('done', busy, unreachableProblem())];
    await once.send(ON, request);
    await expect(once.send(ON, request)).rejects.toThrow('Too much.');
    await expect(once.send(ON, request)).rejects.toThrow('does not respond');
    await once.send({ text: 'turn_off' }, request);
    expect(new Set(keys).size).toBe(4);
  });
});
