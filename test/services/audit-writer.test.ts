import { v7 } from 'uuid';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Log } from '../../src/domain/log.ts';
import { NIL_UUID } from '../../src/domain/uuid.ts';
import { type AuditedAction, AuditWriter } from '../../src/services/audit-writer.ts';
import type { AuditRow } from '../../src/store/contract/audit.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually, type TestClock, testClock } from '../support/clock.ts';

let clock: TestClock;
let kept: AuditRow[];
let batches: number[];
let errors: object[];
let dropped: string[];
let trouble: (rows: readonly AuditRow[]) => void;
let audit: AuditWriter;
const log: Log = { debug() {}, info() {}, warn() {}, error: (fields) => void errors.push(fields) };

beforeEach(() => {
  clock = testClock(1_000_000);
  kept = [];
  batches = [];
  errors = [];
  dropped = [];
  trouble = () => {};
  // Entries still pending at the end of a test are written to that test's arrays, not to those of the next test.
  const [own, sizes] = [kept, batches];
  const append = async (rows: readonly AuditRow[]) => {
    sizes.push(rows.length);
    trouble(rows);
    own.push(...rows);
  };
  audit = new AuditWriter({
    store: { audit: { append } },
    clock,
    newId: v7,
    log,
    dropped: (code) => dropped.push(code),
  });
});

const action = (more: Partial<AuditedAction> = {}): AuditedAction => ({
  ...{ tenantId: v7(), by: v7(), key: null, via: 'rest', action: 'createHome', subject: 'home:1', requestId: v7() },
  ...{ address: '192.0.2.1', client: 'curl' },
  ...more,
});
/** What is stored about dropped attempts. */
const droppedRow = (count: number): Partial<AuditRow> => ({
  ...{ tenantId: null, by: NIL_UUID, action: 'dropAuditEntries', subject: 'service', outcome: 'done', count },
});
const settled = async () => {
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve));
};

describe('an audit entry of an action', () => {
  it('is stored when the promise resolves, with the time of the clock', async () => {
    const given = action();
    await audit.recordDone(given);
    expect(kept).toEqual([{ ...given, id: expect.any(String), at: 1_000_000, outcome: 'done', count: 1 }]);
  });

  it('is written together with concurrent entries', async () => {
    await Promise.all(Array.from({ length: 700 }, () => audit.recordDone(action())));
    expect(batches).toEqual([500, 200]);
  });

  it('waits for an unavailable store, and for one with an unknown outcome', async () => {
    const faults = [new StoreUnavailable('away'), new CommitUnknown('lost'), null];
    trouble = () => {
      const fault = faults.shift();
      if (fault) throw fault;
    };
    await audit.recordDone(action());
    expect(kept).toHaveLength(1);
    expect(new Set(kept.map(({ id }) => id)).size).toBe(1);
  });

  it('is kept if the store fails while the refused entry of a batch is searched', async () => {
    const bad = action({ subject: 'bad' });
    let away = 2;
    trouble = (rows) => {
      if (rows.some(({ subject }) => subject === 'bad')) throw new DataRefused('22P05', 'no');
      if (rows.some(({ subject }) => subject === 'last') && away-- > 0) throw new StoreUnavailable('away');
    };
    const ends = [action(), bad, action({ subject: 'last' })].map((one) =>
      audit.recordDone(one).then(
        () => 'kept',
        () => 'lost',
      ),
    );
    expect(await Promise.all(ends)).toEqual(['kept', 'lost', 'kept']);
    expect(kept.map(({ subject }) => subject)).toEqual(['home:1', 'last']);
  });

  it('that the store refuses is refused alone', async () => {
    const bad = action({ subject: 'bad' });
    trouble = (rows) => {
      if (rows.some(({ subject }) => subject === 'bad')) throw new DataRefused('22P05', 'no');
    };
    const outcomes = await Promise.allSettled([
      audit.recordDone(action()),
      audit.recordDone(bad),
      audit.recordDone(action()),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(kept).toHaveLength(2);
    expect(errors).toHaveLength(1);
    trouble = () => {};
    await audit.recordDone(action());
    expect(kept).toHaveLength(3);
  });

  it('at shutdown is written first, or dropped with a log line', async () => {
    const last = audit.recordDone(action());
    await audit.close();
    await last;
    expect(kept).toHaveLength(1);
    expect(errors).toEqual([]);
  });

  it('that cannot be written before the deadline is dropped with a log line', async () => {
    trouble = () => {
      throw new StoreUnavailable('away');
    };
    const last = audit.recordDone(action());
    const outcome = expect(last).rejects.toBeInstanceOf(StoreUnavailable);
    await audit.close(20);
    await outcome;
    expect(errors).toEqual([{ rows: 1 }]);
  });
});

describe('an audit entry of a refusal', () => {
  it('is written with its code, without a waiting caller', async () => {
    audit.recordRefusal(action(), 'FORBIDDEN_ROLE');
    await settled();
    expect(kept).toMatchObject([{ outcome: 'FORBIDDEN_ROLE' }]);
  });

  it('is written 60 times a minute for one user, then counted', async () => {
    const by = v7();
    for (let n = 0; n < 70; n++) audit.recordRefusal(action({ by }), 'FORBIDDEN');
    audit.recordRefusal(action(), 'FORBIDDEN');
    await settled();
    expect(kept).toHaveLength(61);
    expect(dropped).toEqual(Array.from({ length: 10 }, () => 'FORBIDDEN'));
    clock.advance(60_000);
    audit.recordRefusal(action({ by }), 'FORBIDDEN');
    await settled();
    expect(kept).toHaveLength(62);
  });

  it('is dropped while a thousand entries wait for an unavailable store, and counted; entries of actions are kept', async () => {
    let away = true;
    trouble = () => {
      if (away) throw new StoreUnavailable('away');
    };
    for (let n = 0; n < 1_010; n++) audit.recordRefusal(action(), 'FORBIDDEN');
    const done = audit.recordDone(action());
    expect(dropped).toHaveLength(10);
    away = false;
    await done;
    await audit.close();
    expect(kept).toHaveLength(1_002);
    expect(kept.at(-1)).toMatchObject(droppedRow(10));
  });
});

describe('an action that is repeated', () => {
  it('is one row and, after a minute, another one with the number of repetitions and the latest request', async () => {
    const given = action();
    await audit.recordRepeated(given);
    const latest = { ...given, requestId: v7() };
    for (const one of [given, given, latest]) await audit.recordRepeated(one);
    expect(kept).toHaveLength(1);
    clock.advance(60_000);
    await audit.recordRepeated(given);
    await settled();
    expect(kept.map(({ count }) => count).sort()).toEqual([1, 1, 3]);
    expect(kept.find(({ count }) => count === 3)?.requestId).toBe(latest.requestId);
    expect(audit.sizes().audit_repeated).toBe(1);
  });

  it('is counted until the service stops', async () => {
    const given = action();
    for (let n = 0; n < 3; n++) await audit.recordRepeated(given);
    await audit.close();
    expect(kept.map(({ count }) => count)).toEqual([1, 2]);
  });

  it('fails if its first row is refused, and is tried again', async () => {
    trouble = () => {
      throw new DataRefused('22P05', 'no');
    };
    const given = action();
    await expect(audit.recordRepeated(given)).rejects.toBeInstanceOf(DataRefused);
    trouble = () => {};
    await audit.recordRepeated(given);
    expect(kept).toHaveLength(1);
  });
});

describe('a failed sign-in', () => {
  const failureOf = (more: Partial<AuditedAction> = {}) => {
    const { action: _, subject: __, ...failure } = action(more);
    return failure;
  };
  /** Of other users, as fast as the store takes them. */
  async function failOthers(times: number): Promise<void> {
    for (let n = 0; n < times; n++) {
      audit.recordFailedSignIn(failureOf());
      if (n % 500 === 499) await eventually(() => audit.sizes().audit_waiting === 0);
    }
  }

  it('is one row and a count for each user, key and edge, and is dropped beyond 10,000 of them', async () => {
    const failure = failureOf();
    for (let n = 0; n < 5; n++) audit.recordFailedSignIn(failure);
    audit.recordFailedSignIn({ ...failure, key: 'abcdefgh' });
    audit.recordFailedSignIn({ ...failure, via: 'mqtt' });
    await failOthers(9_997);
    expect(dropped).toEqual([]);
    await failOthers(3);
    await audit.close();
    const mine = kept.filter(({ by }) => by === failure.by);
    expect(mine.map(({ subject, via, count }) => [subject, via, count])).toEqual([
      [`user:${failure.by}`, 'rest', 1],
      ['key:abcdefgh', 'rest', 1],
      [`user:${failure.by}`, 'mqtt', 1],
      [`user:${failure.by}`, 'rest', 4],
    ]);
    expect(dropped).toEqual(Array.from({ length: 3 }, () => 'UNAUTHENTICATED'));
    expect(kept).toHaveLength(10_001);
  });

  it('is bounded in memory while the store is unavailable, and one row has the number of those that were dropped', async () => {
    let away = true;
    trouble = () => {
      if (away) throw new StoreUnavailable('away');
    };
    const first = failureOf();
    for (let n = 0; n < 4; n++) audit.recordFailedSignIn(first);
    for (let minute = 0; minute < 3; minute++) {
      for (let n = 0; n < 1_500; n++) audit.recordFailedSignIn(failureOf());
      clock.advance(60_000);
    }
    expect(audit.sizes().audit_waiting).toBe(1_000);
    away = false;
    await audit.close();
    expect(kept).toHaveLength(1_001);
    // 4 of the first user, of which one is a row, and 4,500 others, of which 999 are rows.
    expect(kept.at(-1)).toMatchObject(droppedRow(3 + 4_500 - 999));
    expect(audit.sizes().audit_waiting).toBe(0);
  });
});
