import { describe, expect, it } from 'vitest';
import { Problem } from '../../../console/src/api/problem.ts';
import { type BulkOutcome, runForEach, whenAllowed } from '../../../console/src/devices/bulk/bulk-run.ts';

const moved: BulkOutcome = { tone: 'good', text: 'moved', isFinal: true };
const problem = (code: Problem['code'], retryAfterS: number | null = null): Problem =>
  new Problem({ code, detail: `refused with ${code}`, status: 400, retryAfterS });
const ids = Array.from({ length: 10 }, (_, n) => `device ${n}`);

/** Runs a change of all devices and returns the outcomes in the order of the reports. */
async function run(
  change: (id: string) => Promise<BulkOutcome>,
  { isStopped = (): boolean => false, waits = [] as number[] } = {},
): Promise<Map<string, BulkOutcome>> {
  const outcomes = new Map<string, BulkOutcome>();
  const control = { isStopped, report: (id: string, outcome: BulkOutcome) => void outcomes.set(id, outcome) };
  await runForEach(ids, change, control, async (seconds) => void waits.push(seconds));
  return outcomes;
}

describe('a change of many devices', () => {
  it('reports the outcome of each device, and no failure ends the others', async () => {
    const outcomes = await run(async (id) => {
      if (id === 'device 3') throw problem('NOT_FOUND');
      if (id === 'device 4') throw problem('DRY_RUN_REQUIRED');
      return moved;
    });
    expect([...outcomes.keys()].sort()).toEqual(ids);
    expect(outcomes.get('device 3')).toEqual({ tone: 'bad', text: 'refused with NOT_FOUND', isFinal: true });
    expect(outcomes.get('device 4')).toMatchObject({ tone: 'warn', href: '/confirmations' });
    expect([...outcomes.values()].filter((outcome) => outcome === moved)).toHaveLength(8);
  });

  it('has at most four requests at once', async () => {
    let [now, most] = [0, 0];
    await run(async () => {
      most = Math.max(most, ++now);
      await Promise.resolve();
      now--;
      return moved;
    });
    expect(most).toBe(4);
  });

  it('sends nothing after it was stopped', async () => {
    let sent = 0;
    const outcomes = await run(
      async () => {
        sent++;
        return moved;
      },
      { isStopped: () => sent >= 4 },
    );
    expect(sent).toBe(4);
    expect([...outcomes.values()].filter(({ text }) => text === 'not changed: stopped')).toHaveLength(6);
  });

  it('waits as long as a rate limit requires, and then sends the request again', async () => {
    const waits: number[] = [];
    let limited = 0;
    const outcomes = await run(
      async (id) => {
        if (id === 'device 0' && limited++ < 2) throw problem('RATE_LIMIT_EXCEEDED', 45);
        return moved;
      },
      { waits },
    );
    expect(waits).toEqual([45, 45]);
    expect(outcomes.get('device 0')).toBe(moved);
  });

  it('gives up waiting when it is stopped', async () => {
    const limited = async (): Promise<never> => {
      throw problem('RATE_LIMIT_EXCEEDED');
    };
    await expect(whenAllowed(limited, () => true)).rejects.toThrow('refused with RATE_LIMIT_EXCEEDED');
  });
});
