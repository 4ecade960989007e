import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { Overloaded } from '../../actors/contract.ts';
import { DAY_MS, dayOf } from '../../domain/day.ts';
import { type ExportFormat, exportFormats } from '../../domain/export-formats.ts';
import type { Bucket } from '../../domain/history/bucket.ts';
import { type Aggregate, type RowFormat, rowFormats } from '../../domain/history/export-rows.ts';
import { readCost } from '../../domain/history/read-cost.ts';
import { rollupSteps } from '../../domain/history/rollup.ts';
import type { Sample, SampleValue, StoredReport } from '../../domain/history/sample.ts';
import { rollupFor } from '../../domain/history/step.ts';
import { readStep } from '../../domain/history/step-length.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import { auditedActionOf } from '../audit-recording.ts';
import { idOf } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { findDevice, pendingReports } from './device-view.ts';
import { MAX_ANSWER_POINTS, MAX_ROLLUPS } from './history-answer.ts';
import {
  aggregatesOf,
  type HistoryRange,
  historyRangeOf,
  isSampleStep,
  propertyPath,
  rangeInput,
  sizeOf,
} from './history-range.ts';
import { readBuckets, readSampleDays } from './series-reader.ts';

const MAX_PROPERTIES = 20;
/** Characters that are written at a time. */
const BLOCK_LENGTH = 64 * 1024;

const input = z.strictObject({
  id: idOf('device'),
  property: z
    .array(propertyPath)
    .min(1)
    .max(MAX_PROPERTIES)
    .refine((paths) => new Set(paths).size === paths.length, 'must not repeat a property')
    .meta({ description: `Paths of properties, as in the history of a device; ${MAX_PROPERTIES} at most` }),
  ...rangeInput,
  step: rangeInput.step.meta({
    description:
      '`raw`, the default, for samples, `changes`, or the length of the intervals, as in the history of a device',
  }),
  format: z
    .enum(['ndjson', 'csv'])
    .default('ndjson')
    .meta({ description: 'Texts that a spreadsheet would take for a formula begin with an apostrophe in CSV' }),
});

export const exportDeviceHistory = operation({
  name: 'exportDeviceHistory',
  summary:
    'Download the history of properties of a device, one after the other, each in the order of time: one JSON object a line (NDJSON), or CSV for spreadsheets',
  input,
  output: z.null(),
  role: 'user',
  scope: 'read:history',
  restrictedKeys: 'devices',
  changes: false,
  streams: Object.values(exportFormats).map(({ type }) => type),
  refuses: ['NOT_FOUND', 'OVERLOADED', 'RATE_LIMIT_EXCEEDED'],
  example: { input: { property: ['temperature'], format: 'csv' } },
  needs: ['actors', 'audit', 'clock', 'historyExports', 'settings', 'store'],
  async run(services, { input: given, caller, charge }) {
    const found = await findDevice(services, caller, given.id);
    if (!found.ok) return found;
    const shown = aggregatesOf(given.agg);
    if (!shown.ok) return shown;
    const range = await historyRangeOf(services, caller, { ...given, step: given.step ?? 'raw' });
    if (!range.ok) return range;
    const request: ExportRequest = {
      ...{ tenantId: tenantOf(caller), deviceId: given.id, properties: given.property },
      pending: pendingReports(found.value),
      ...{ range: range.value, shown: shown.value, format: given.format, caller },
    };
    const charged = await charge?.(await costOf(services, request));
    if (charged?.ok === false) return charged;
    const { type, parameters, ending } = exportFormats[given.format];
    return done({
      body: null,
      stream: {
        type: `${type}${parameters}`,
        name: `history-${given.id}.${ending}`,
        open(signal) {
          const begun = services.historyExports.begin(request.tenantId);
          return begun.ok ? done(exported(services, request, { signal, end: begun.value })) : begun;
        },
      },
    });
  },
});

/** The properties of a device that are exported. */
interface SeriesExport {
  tenantId: Uuid;
  deviceId: Uuid;
  /** Reports of the device that waited for its next commit when the export began. */
  pending: readonly StoredReport[];
  range: HistoryRange;
  shown: ReadonlySet<Aggregate>;
}

interface ExportRequest extends SeriesExport {
  properties: readonly string[];
  format: ExportFormat;
  caller: Caller;
}

/** The cost of the export, by the samples that are stored for its days, or by its intervals and their roll-ups. */
async function costOf(
  { store }: Pick<Services, 'store'>,
  { tenantId, deviceId, properties, range }: ExportRequest,
): Promise<number> {
  const { intervals, rollup, rollups } = sizeOf(range);
  const days = { from: dayOf(range.from), to: dayOf(range.to - 1) };
  const samples = rollup === null ? await store.history.samplesOf(tenantId, deviceId, properties, days) : 0;
  return readCost({
    points: Math.max(samples, intervals * properties.length),
    rollups: rollups * properties.length,
  });
}

/** Rows as text. */
interface Block {
  text: string;
  rows: number;
}

/** The whole file, until the signal aborts. It is audited before its first row, and with the numbers of rows at its end. */
async function* exported(
  services: Pick<Services, 'audit' | 'store'>,
  request: ExportRequest,
  { signal, end }: { signal: AbortSignal; end(): void },
): AsyncGenerator<string> {
  const { properties, range, shown } = request;
  const format = rowFormats[request.format]();
  const sent = new Map<string, number>();
  try {
    await auditBegin(services, request);
    // Sent with the first rows, so that an export that cannot be read is refused.
    let header = isSampleStep(range.step) ? format.samplesHeader() : format.pointsHeader(shown);
    for (const property of properties) {
      sent.set(property, 0);
      for await (const { text, rows } of blocksOf(services, request, property, format)) {
        if (signal.aborted) return;
        sent.set(property, (sent.get(property) ?? 0) + rows);
        yield `${header}${text}`;
        header = '';
        // The socket may take everything at once, and other work needs its turn.
        await nextTurn();
      }
    }
    yield header;
  } finally {
    end();
    auditEnd(services, request, sent);
  }
}

/** The rows of a property. */
export const blocksOf = (
  services: Pick<Services, 'store'>,
  request: SeriesExport,
  property: string,
  format: RowFormat,
): AsyncGenerator<Block> =>
  isSampleStep(request.range.step)
    ? sampleBlocks(services, request, property, format.samples(property))
    : pointBlocks(services, request, property, format.points(property, request.shown));

async function* sampleBlocks(
  services: Pick<Services, 'store'>,
  { tenantId, deviceId, pending, range: { from, to, step } }: SeriesExport,
  property: string,
  write: (sample: Sample) => string,
): AsyncGenerator<Block> {
  let last: SampleValue | null = null;
  function* shown(samples: Iterable<Sample>): Generator<Sample> {
    for (const sample of samples) {
      const isShown = sample.time >= from && (step === 'raw' || sample.value !== last);
      last = sample.value;
      if (isShown) yield sample;
    }
  }
  const request = { tenantId, deviceId, property, pending, from, to, withoutBefore: step === 'raw' };
  for await (const { samples, before } of readSampleDays(services, request)) {
    last = before ?? last;
    yield* blocks(shown(samples), write);
  }
}

async function* pointBlocks(
  services: Pick<Services, 'store'>,
  { tenantId, deviceId, pending, range }: SeriesExport,
  property: string,
  write: (bucket: Bucket) => string,
): AsyncGenerator<Block> {
  const step = readStep(range.step);
  const length = windowOf(step);
  for (let from = range.from; from < range.to; from += length) {
    const to = Math.min(from + length, range.to);
    const request = { tenantId, deviceId, property, pending, from, to };
    const read = await readBuckets(services, request, step, Math.min(to, range.now));
    if (!read.ok) throw new Overloaded(read.refusal.detail);
    yield* blocks(read.value.buckets, write);
  }
}

/** Whole intervals that are in memory at a time: those of about a day of samples, or as many as one answer has. */
function windowOf(step: Milliseconds): Milliseconds {
  const rollup = rollupFor(step);
  const most = rollup === null ? DAY_MS : Math.min(MAX_ANSWER_POINTS * step, MAX_ROLLUPS * rollupSteps[rollup]);
  return Math.max(1, Math.floor(most / step)) * step;
}

/** The last one may be empty, so that an export without rows notices that its client has left. */
function* blocks<T>(items: Iterable<T>, write: (item: T) => string): Generator<Block> {
  let text = '';
  let rows = 0;
  for (const item of items) {
    text += write(item);
    rows += 1;
    if (text.length < BLOCK_LENGTH) continue;
    yield { text, rows };
    text = '';
    rows = 0;
  }
  yield { text, rows };
}

async function auditBegin(
  { audit }: Pick<Services, 'audit'>,
  { caller, deviceId }: Pick<ExportRequest, 'caller' | 'deviceId'>,
): Promise<void> {
  const action = auditedActionOf({ name: 'exportDeviceHistory' }, caller, `device:${deviceId}`);
  if (action !== null) await audit.recordDone(action);
}

/** An entry for each property, with its range and the number of its rows. Not awaited: the client has the rows. */
function auditEnd(
  { audit }: Pick<Services, 'audit'>,
  { caller, deviceId, range }: ExportRequest,
  sent: ReadonlyMap<string, number>,
): void {
  for (const [property, rows] of sent) {
    const subject = `history:${deviceId}/${encodeURIComponent(property)}/${iso(range.from)}/${iso(range.to)}`;
    const action = auditedActionOf({ name: 'exportHistoryRows' }, caller, subject);
    // The writer logs a row that it could not write.
    if (action !== null) audit.recordCounted(action, rows).catch(() => {});
  }
}
