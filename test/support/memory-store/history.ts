import { DAY_MS } from '../../../src/domain/day.ts';
import type { RollupStep } from '../../../src/domain/history/rollup.ts';
import { shardOf } from '../../../src/domain/shards.ts';
import type { EpochMs, Uuid } from '../../../src/domain/values.ts';
import {
  type DayNumber,
  type HistoryStore,
  MAX_DEVICE_SKEW_MS,
  MAX_SERIES_BYTES,
  MAX_TAIL_BYTES,
  type MergedSeries,
  type OpenSeries,
  type PropertySegment,
  type SampleCount,
  type SeriesKey,
  type SeriesRange,
  type SeriesRows,
  type StoredSegment,
} from '../../../src/store/contract/history.ts';
import { actorKey, type Tables } from './database.ts';
import type { Session } from './session.ts';
import type { Table } from './table.ts';

/** Reports of one commit. */
export interface SamplesRow {
  deviceId: Uuid;
  tenantId: Uuid;
  version: number;
  at: EpochMs;
  text: string;
}

export interface HistoryPositionRow {
  tenantId: Uuid;
  version: number;
  openFrom: DayNumber | null;
  /** When reports were last imported; null: never. */
  importedAt: EpochMs | null;
}

export interface SegmentRow extends StoredSegment {
  deviceId: Uuid;
  tenantId: Uuid;
  property: string;
  samples: number;
}

export interface MergedSegmentRow extends SegmentRow {
  rollups: Readonly<Record<RollupStep, Uint8Array>>;
}

export const samplesKey = (deviceId: Uuid, version: number): string => `${deviceId}/${version}`;
export const dayKey = ({ deviceId, property, day }: Pick<SegmentRow, 'deviceId' | 'property' | 'day'>): string =>
  JSON.stringify([deviceId, property, day]);

const versionOf = (tables: Tables, deviceId: Uuid): number => tables.historyPositions.get(deviceId)?.version ?? 0;

export const tailOf = (tables: Tables, deviceId: Uuid): SamplesRow[] =>
  tables.samples
    .where((row) => row.deviceId === deviceId && row.version > versionOf(tables, deviceId))
    .sort((one, other) => one.version - other.version);

/** Segments of days that are not merged. */
export const unmerged = (tables: Tables, deviceId: Uuid): SegmentRow[] =>
  tables.historyParts
    .where((row) => row.deviceId === deviceId)
    .filter((row) => (tables.historyRollups.get(dayKey(row))?.part ?? -1) < row.part);

const segmentOf = ({ day, part, body }: StoredSegment): StoredSegment => ({ day, part, body });

const leastOf = (...days: (DayNumber | null)[]): DayNumber | null =>
  days.reduce<DayNumber | null>((least, day) => (day === null ? least : Math.min(least ?? day, day)), null);

export const historyStore = (session: Session): HistoryStore => ({
  backlogs: (after, limit, maxRows, shards) =>
    session.read(
      'history.backlogs',
      [after, limit, maxRows, shards ?? null],
      (tables, after, limit, maxRows, shards) => {
        const page = tables.actors
          .where(
            ({ ref, tenantId }) => ref.kind === 'device' && (shards === null || shards.includes(shardOf(tenantId))),
          )
          .filter(({ ref }) => ref.id > after)
          .sort((one, other) => (one.ref.id < other.ref.id ? -1 : 1))
          .slice(0, limit);
        const backlogs = page.flatMap(({ ref: { id }, tenantId, columns }) => {
          const tail = tailOf(tables, id).slice(0, maxRows);
          const position = tables.historyPositions.get(id);
          const deleted = columns.deleted === true;
          const openFrom = position?.openFrom ?? null;
          if (tail.length === 0 && openFrom === null && !(deleted && position !== undefined)) return [];
          const oldest = tail.length === 0 ? null : Math.min(...tail.map(({ at }) => at));
          const isImported = openFrom !== null && openFrom * DAY_MS < registeredAt(tables, id);
          const importedOn = Math.floor((position?.importedAt ?? 0) / DAY_MS);
          const expiresWith = isImported ? Math.max(openFrom, importedOn) : openFrom;
          return [{ deviceId: id, tenantId, deleted, openFrom, expiresWith, rows: tail.length, oldest }];
        });
        return { backlogs, next: page.length < limit ? null : (page.at(-1)?.ref.id ?? null) };
      },
    ),

  tail: (deviceId, maxRows, maxBytes) =>
    session.read('history.tail', [deviceId, maxRows, maxBytes], (tables, deviceId, maxRows, maxBytes) => {
      let bytes = 0;
      const rows = tailOf(tables, deviceId)
        .slice(0, maxRows)
        .filter(({ text }) => {
          const fits = bytes < maxBytes;
          bytes += Buffer.byteLength(text);
          return fits;
        })
        .map(({ version, text }) => ({ version, text }));
      return { version: versionOf(tables, deviceId), rows };
    }),

  sampleCounts: (deviceId, days) =>
    session.read('history.sampleCounts', [deviceId, days], (tables, deviceId, days) => {
      const counts = new Map<string, SampleCount>();
      const isCounted = (row: SegmentRow) => row.deviceId === deviceId && days.includes(row.day);
      const rolledUp = tables.historyRollups.where(isCounted).map((row) => ({ ...row, samples: 0 }));
      const stored = [...tables.historySegments.where(isCounted), ...unmerged(tables, deviceId).filter(isCounted)];
      for (const { property, day, samples } of [...stored, ...rolledUp]) {
        const key = JSON.stringify([property, day]);
        counts.set(key, { property, day, samples: samples + (counts.get(key)?.samples ?? 0) });
      }
      return [...counts.values()];
    }),

  compact: (compaction) =>
    session.write('history.compact', [compaction], (tables, { deviceId, tenantId, from, to, segments }) => {
      const position = tables.historyPositions.get(deviceId);
      if ((position?.version ?? 0) !== from) return false;
      const openFrom = leastOf(position?.openFrom ?? null, ...segments.map(({ day }) => day));
      tables.historyPositions.set(deviceId, {
        ...{ tenantId: position?.tenantId ?? tenantId, version: to, openFrom },
        importedAt: position?.importedAt ?? null,
      });
      for (const segment of segments) {
        const row = { deviceId, tenantId, part: to, ...segment };
        tables.historyParts.set(`${dayKey(row)}/${to}`, row);
      }
      return true;
    }),

  openSeries: (deviceId, before) =>
    session.read('history.openSeries', [deviceId, before], (tables, deviceId, before) => {
      const open = new Map<string, OpenSeries>();
      for (const { property, day, part, samples, body } of unmerged(tables, deviceId)) {
        if (day >= before) continue;
        const key = dayKey({ deviceId, property, day });
        const known = open.get(key) ?? {
          ...{ property, day, part, mergedPart: tables.historyRollups.get(key)?.part ?? null },
          bytes: tables.historySegments.get(key)?.body.length ?? 0,
          samples: tables.historySegments.get(key)?.samples ?? 0,
        };
        open.set(key, {
          ...{ ...known, part: Math.max(part, known.part) },
          ...{ bytes: known.bytes + body.length, samples: known.samples + samples },
        });
      }
      const series = [...open.values()];
      series.sort((one, other) => one.day - other.day || (one.property < other.property ? -1 : 1));
      return { version: versionOf(tables, deviceId), series };
    }),

  segments: (tenantId, deviceId, day, properties) =>
    session.read(
      'history.segments',
      [tenantId, deviceId, day, properties],
      (tables, tenantId, deviceId, day, properties) => {
        const isWanted = (row: SegmentRow) =>
          row.tenantId === tenantId && row.day === day && properties.includes(row.property);
        const merged = tables.historySegments.where((row) => row.deviceId === deviceId && isWanted(row));
        const later = unmerged(tables, deviceId).filter(isWanted);
        return [...merged, ...later].map((row): PropertySegment => ({ property: row.property, ...segmentOf(row) }));
      },
    ),

  merge: (deviceId, tenantId, merged) =>
    session.write('history.merge', [deviceId, tenantId, merged], (tables, deviceId, tenantId, merged) => {
      for (const series of merged as readonly MergedSeries[]) {
        const row = { deviceId, tenantId, ...series };
        const key = dayKey(row);
        for (const table of [tables.historySegments, tables.historyRollups])
          if ((table.get(key)?.part ?? -1) < row.part) table.set(key, row);
      }
      return true;
    }),

  discardLate: (late) =>
    session.write('history.discardLate', [late], (tables, late) => {
      const key = dayKey(late);
      const rollup = tables.historyRollups.get(key);
      if (rollup?.part !== late.mergedPart || late.part <= rollup.part || tables.historySegments.get(key)) return false;
      tables.historyRollups.set(key, { ...rollup, part: late.part });
      return true;
    }),

  closeDays: (deviceId, tenantId, version, before) =>
    session.write(
      'history.closeDays',
      [deviceId, tenantId, version, before],
      (tables, deviceId, _tenantId, version, before) => {
        const position = tables.historyPositions.get(deviceId);
        if (position?.version !== version) return;
        const later = tables.historyParts.where((row) => row.deviceId === deviceId && row.day >= before);
        const openFrom = leastOf(...later.map(({ day }) => day));
        tables.historyPositions.set(deviceId, { ...position, openFrom });
      },
    ),

  deleteDevice: async (deviceId, tenantId, batch, isStopped) => {
    if (isStopped()) return;
    await session.write('history.deleteDevice', [deviceId, tenantId, batch], (tables, deviceId, _tenantId, _batch) => {
      const isOwn = (row: { deviceId: Uuid }) => row.deviceId === deviceId;
      dropRows(tables.samples, isOwn);
      dropRows(tables.historyParts, isOwn);
      dropRows(tables.historySegments, isOwn);
      dropRows(tables.historyRollups, isOwn);
      tables.historyPositions.delete(deviceId);
    });
  },

  samplesOf: (tenantId, deviceId, properties, range) =>
    session.read(
      'history.samplesOf',
      [tenantId, deviceId, properties, range],
      (tables, tenantId, deviceId, properties, { from, to }) =>
        [...tables.historySegments.where((row) => row.deviceId === deviceId), ...unmerged(tables, deviceId)]
          .filter((row) => row.tenantId === tenantId && properties.includes(row.property))
          .filter(({ day }) => day >= from && day <= to)
          .reduce((sum, { samples }) => sum + samples, 0),
    ),

  series: (tenantId, keys, range, step) =>
    session.read('history.series', [tenantId, keys, range, step], (tables, tenantId, keys, range, step) => {
      const start = firstDayOf(range) * DAY_MS - MAX_DEVICE_SKEW_MS;
      const end = (range.to + 1) * DAY_MS + MAX_DEVICE_SKEW_MS;
      const ids = [...new Set(keys.map(({ deviceId }) => deviceId))];
      const rows = ids.map((id) => {
        const isImported = range.from * DAY_MS < registeredAt(tables, id);
        const importedAt = tables.historyPositions.get(id)?.importedAt ?? 0;
        const isRead = (row: SamplesRow) =>
          row.tenantId === tenantId && row.at >= start && (isImported || row.at < end || row.at <= importedAt);
        return tailOf(tables, id).filter(isRead);
      });
      const tailBytes = rows.flat().reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
      const stored = keys.map((key) => storedSeries(tables, { tenantId, ...key }, range, step));
      const bodies = stored.flatMap(({ days, parts }) => [...days, ...parts]);
      const storedBytes = bodies.reduce((sum, { body }) => sum + body.length, 0);
      const complete = tailBytes <= MAX_TAIL_BYTES && (keys.length === 1 || storedBytes <= MAX_SERIES_BYTES);
      const tails = new Map(
        ids.map((id, n) => [id, complete ? (rows[n] ?? []).map(({ version, text }) => ({ version, text })) : []]),
      );
      return keys.map((key, n) => ({
        ...(stored[n] as (typeof stored)[number]),
        ...(!complete && { days: [], parts: [] }),
        ...{ tail: tails.get(key.deviceId) ?? [], complete },
      }));
    }),

  makePartitions: (today) => session.write('history.makePartitions', [today], (_tables, _today) => 0),

  // A table has no partitions, so that expired rows are deleted.
  dropPartitions: (days, compactedBefore) =>
    session.write('history.dropPartitions', [days, compactedBefore], (tables, days, compactedBefore) => {
      const { today, samplesFrom, rollupsFrom } = days;
      const expired = samplesFrom - 2;
      const end = Math.min(Math.max(Math.floor(compactedBefore / DAY_MS), expired), today);
      const openFrom = (deviceId: Uuid) => tables.historyPositions.get(deviceId)?.openFrom ?? today;
      const isImported = (deviceId: Uuid, day: DayNumber) =>
        (tables.historyPositions.get(deviceId)?.importedAt ?? 0) >= expired * DAY_MS &&
        registeredAt(tables, deviceId) > day * DAY_MS;
      const isCompacted = ({ deviceId, version }: SamplesRow) => version <= versionOf(tables, deviceId);
      return (
        dropRows(tables.samples, (row) => row.at < (isCompacted(row) ? end : expired) * DAY_MS) +
        dropRows(
          tables.historyParts,
          ({ deviceId, day }) =>
            day < Math.min(openFrom(deviceId), today - 1) || (day < expired && !isImported(deviceId, day)),
        ) +
        dropRows(tables.historySegments, ({ day }) => day < samplesFrom) +
        dropRows(tables.historyRollups, ({ day }) => day < rollupsFrom)
      );
    }),
});

const registeredAt = (tables: Tables, id: Uuid): EpochMs =>
  Number(tables.actors.get(actorKey({ kind: 'device', id }))?.columns.created_at ?? 0);

/** The first day of which reports and parts are read. */
const firstDayOf = ({ from, withoutEarlier }: SeriesRange): DayNumber => (withoutEarlier ? from : 0);

/** The segments and roll-ups of a series. */
function storedSeries(
  tables: Tables,
  { tenantId, deviceId, property }: { tenantId: Uuid } & SeriesKey,
  range: SeriesRange,
  step: RollupStep | null,
): Pick<SeriesRows, 'days' | 'before' | 'parts'> {
  const { from, to } = range;
  const firstDay = firstDayOf(range);
  const isSeries = (row: SegmentRow) =>
    row.tenantId === tenantId && row.deviceId === deviceId && row.property === property;
  const byDay = (one: StoredSegment, other: StoredSegment) => one.day - other.day;
  const rollups = tables.historyRollups.where(isSeries).sort(byDay);
  const isInRange = ({ day }: StoredSegment) => day >= from && day <= to;
  const before = rollups.filter(({ day }) => day < from && firstDay < from).at(-1);
  return {
    days:
      step === null
        ? tables.historySegments.where(isSeries).filter(isInRange).sort(byDay).map(segmentOf)
        : rollups.filter(isInRange).map((row) => ({ ...segmentOf(row), body: row.rollups[step] })),
    before: before === undefined ? null : { ...segmentOf(before), body: before.rollups['1d'] },
    parts: unmerged(tables, deviceId)
      .filter((row) => isSeries(row) && row.day >= firstDay && row.day <= to)
      .map(segmentOf),
  };
}

/** Deletes rows; returns how many. */
function dropRows<Row>(table: Table<Row>, isDropped: (row: Row) => boolean): number {
  const dropped = [...table].filter(([, row]) => isDropped(row));
  for (const [key] of dropped) table.delete(key);
  return dropped.length;
}
