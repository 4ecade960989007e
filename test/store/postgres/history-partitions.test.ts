import { afterEach, beforeEach, expect, it } from 'vitest';
import { dayOf } from '../../../src/domain/day.ts';
import { encodeSegment } from '../../../src/domain/history/segment.ts';
import type { Statement } from '../../../src/store/postgres/database.ts';
import { dropPartitions } from '../../../src/store/postgres/history-partitions.ts';
import { testClock } from '../../support/clock.ts';
import { compactionOf, DAY, HOUR, MINUTE, ReportingDevice } from '../../support/history-model.ts';
import { eachDatabase } from '../../support/store.ts';

const START = Date.UTC(2026, 2, 1);
const TODAY = dayOf(START) + 3;
const RANGE = { today: TODAY, samplesFrom: TODAY - 7, rollupsFrom: 0 };
const NOW = START + 3 * DAY + HOUR;

eachDatabase('partitions of the history', (backend) => {
  let device: ReportingDevice;
  const store = () => backend().store;
  const database = () => backend().database;
  beforeEach(async () => {
    device = new ReportingDevice(store());
    await device.register();
  });

  /** Other suites use the same database. */
  afterEach(async () => {
    const later = TODAY + 100;
    await store().history.dropPartitions({ today: later, samplesFrom: later, rollupsFrom: later }, later * DAY);
  });

  const partitions = async (table: string): Promise<string[]> => {
    const rows = await database().read<{ name: string }>({
      text: `select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1`,
      values: [table],
    });
    return rows.map(({ name }) => name);
  };
  const dayPartition = (table: string) => `${table}_d${dayOf(START)}`;

  /** Drops partitions; `between` runs after the earliest open day was read. */
  const dropWith = (between: () => Promise<unknown>): Promise<number> => {
    const read = async <Row extends object>(statement: Statement): Promise<Row[]> => {
      const rows = await database().read<Row>(statement);
      if (statement.text.includes('min(open_from)')) await between();
      return rows;
    };
    return dropPartitions(
      { read, write: (statement) => database().write(statement), transaction: (run) => database().transaction(run) },
      RANGE,
      NOW,
    );
  };

  it('keep segments of a device that was compacted after the earliest open day was read', async () => {
    await store().history.makePartitions(dayOf(START));
    await device.report(START, { values: { level: 1 } }, { time: START + MINUTE, values: { level: 2 } });
    // Of the day, not merged: the clock has not reached its end.
    await dropWith(() => compactToEnd(device));
    expect(await partitions('history_parts')).toContain(dayPartition('history_parts'));
    expect(await device.read('level', START, START + DAY)).toHaveLength(2);
    await compactionOf(store(), testClock(NOW)).sweep();
    await dropWith(async () => {});
    expect(await partitions('history_parts')).not.toContain(dayPartition('history_parts'));
    expect(await partitions('samples')).not.toContain(dayPartition('samples'));
    expect(await device.read('level', START, START + DAY)).toEqual(device.seriesOf('level'));
  });

  it('keep reports and segments in the default partition until they are compacted and merged', async () => {
    await device.report(START, { values: { level: 1 } });
    await dropWith(async () => {});
    expect(await device.read('level', START, START + DAY)).toHaveLength(1);
    await dropWith(() => compactToEnd(device));
    expect(await device.read('level', START, START + DAY)).toHaveLength(1);
    await compactionOf(store(), testClock(NOW)).sweep();
    await dropWith(async () => {});
    const [rest] = await database().read<{ samples: number; parts: number }>({
      text: `select (select count(*) from samples where device_id = $1) as samples,
        (select count(*) from history_parts where device_id = $1) as parts`,
      values: [device.id],
    });
    expect(rest).toEqual({ samples: 0, parts: 0 });
    expect(await device.read('level', START, START + DAY)).toEqual(device.seriesOf('level'));
  });

  it('lose all expired rows of the default partition, in several statements', async () => {
    const count = 4_100;
    await database().write({
      text: `insert into history_segments (device_id, property, day, part, tenant_id, samples, body)
        select $1, 'p' || n, 10, 1, $2, 1, '' from generate_series(1, ${count}) as n`,
      values: [device.id, device.tenantId],
    });
    const statements: number[] = [];
    const write = async <Row extends object>(statement: Statement): Promise<Row[]> => {
      const rows = await database().write<Row>(statement);
      if (statement.text.includes('history_segments_default'))
        statements.push(...rows.map((row) => (row as { deleted?: number }).deleted ?? 0));
      return rows;
    };
    const { read, transaction } = database();
    await dropPartitions(
      { write, read: read.bind(database()), transaction: transaction.bind(database()) },
      { ...RANGE, samplesFrom: 11 },
      NOW,
    );
    expect(statements.reduce((sum, deleted) => sum + deleted)).toBe(count);
    expect(Math.max(...statements)).toBeLessThan(count);
    const segments = await store().history.segments(device.tenantId, device.id, 10, ['p1', 'p4100']);
    expect(segments).toEqual([]);
  });

  it('do not wait for days that were never merged longer than two days after their samples have expired', async () => {
    await store().history.makePartitions(dayOf(START));
    await device.report(START, { values: { level: 1 } });
    await compactToEnd(device);
    const drop = (samplesFrom: number) =>
      store().history.dropPartitions({ today: TODAY + 30, samplesFrom, rollupsFrom: 0 }, NOW);
    await drop(dayOf(START) + 2);
    expect(await partitions('history_parts')).toContain(dayPartition('history_parts'));
    await drop(dayOf(START) + 3);
    expect(await partitions('history_parts')).not.toContain(dayPartition('history_parts'));
    // Its next sweep closes the day.
    const compaction = compactionOf(store(), testClock(NOW));
    await compaction.sweep();
    expect([compaction.failures, (await compaction.progress()).openFrom]).toEqual([0, null]);
  });

  it('keep expired segments of days before the registration of a device that has imported, and none of later days', async () => {
    const drop = () =>
      store().history.dropPartitions({ today: TODAY + 30, samplesFrom: dayOf(START) + 3, rollupsFrom: 0 }, NOW);
    const isKept = async () => (await partitions('history_parts')).includes(dayPartition('history_parts'));
    // Its day of reports could not be merged, and expires although the device imports earlier ones.
    await store().history.makePartitions(dayOf(START));
    await device.report(START, { values: { level: 1 } });
    await compactToEnd(device);
    await device.import(NOW, { time: 1, values: { level: 2 } });
    await drop();
    expect(await isKept()).toBe(false);
    // Its day expired before it was imported.
    await store().history.makePartitions(dayOf(START));
    const later = new ReportingDevice(store(), undefined, START + DAY);
    await later.register();
    await later.import(NOW, { time: START, values: { level: 3 } });
    await compactToEnd(later);
    await drop();
    expect(await isKept()).toBe(true);
    await compactionOf(store(), testClock(NOW)).sweep();
    await drop();
    expect(await isKept()).toBe(false);
    const { buckets } = await later.buckets('level', START, START + DAY, DAY);
    expect(buckets).toMatchObject([{ count: 1, last: 3 }]);
  });

  /** Compacts the reports of a device without merging their day. */
  async function compactToEnd({ id, tenantId, samples }: ReportingDevice): Promise<void> {
    const { version, rows } = await store().history.tail(id, 1_000, 1_000_000);
    const to = rows.at(-1)?.version ?? 0;
    const body = await encodeSegment([...samples]);
    const segments = [{ property: 'level', day: dayOf(START), samples: samples.length, body }];
    expect(await store().history.compact({ deviceId: id, tenantId, from: version, to, segments })).toBe(true);
  }
});
