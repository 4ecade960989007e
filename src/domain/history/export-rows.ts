import { csvField, csvRecord } from '../csv.ts';
import type { ExportFormat } from '../export-formats.ts';
import { IsoTimes } from '../iso-times.ts';
import { type Bucket, meanOf } from './bucket.ts';
import type { Sample, SampleValue } from './sample.ts';

export const aggregates = ['min', 'max', 'mean', 'last', 'count', 'states'] as const;
export type Aggregate = (typeof aggregates)[number];

/** The rows of an export in one format, each with the end of its line. */
export interface RowFormat {
  /** Before the rows of samples, or of intervals with these aggregates. */
  samplesHeader(): string;
  pointsHeader(shown: ReadonlySet<Aggregate>): string;
  /** A function for each property, with its own text. */
  samples(property: string): (sample: Sample) => string;
  points(property: string, shown: ReadonlySet<Aggregate>): (bucket: Bucket) => string;
}

/** CSV (RFC 4180), as `csvRecord` writes it; `states` as JSON. */
function csvFormat(): RowFormat {
  const at = new IsoTimes();
  const received = new IsoTimes();
  return {
    samplesHeader: () => csvRecord(['at', 'property', 'value', 'received_at', 'sequence_number']),
    pointsHeader: (shown) => csvRecord(['at', 'property', ...aggregates.filter((one) => shown.has(one))]),
    samples: (property) => {
      const name = csvField(property);
      return (one) =>
        `"${at.text(one.time)}",${name},${csvValue(one.value)},"${received.text(one.at)}",${one.sequence}\r\n`;
    },
    points: (property, shown) => {
      const names = aggregates.filter((one) => shown.has(one));
      const name = csvField(property);
      return (bucket) => {
        const fields = names.map((one) => csvAggregate(bucket, one));
        return `${[`"${at.text(bucket.start)}"`, name, ...fields].join(',')}\r\n`;
      };
    },
  };
}

const csvValue = (value: SampleValue | null): string => csvField(typeof value === 'boolean' ? `${value}` : value);

function csvAggregate(bucket: Bucket, name: Aggregate): string {
  const value = aggregateOf(bucket, name);
  return typeof value === 'object' && value !== null ? csvField(JSON.stringify(value)) : csvValue(value);
}

/** One JSON object a line, with the members of the samples and points of the REST API, and `property`. */
function ndjsonFormat(): RowFormat {
  const at = new IsoTimes();
  const received = new IsoTimes();
  return {
    samplesHeader: () => '',
    pointsHeader: () => '',
    samples: (property) => {
      const name = JSON.stringify(property);
      return (one) =>
        `{"at":"${at.text(one.time)}","property":${name},"value":${JSON.stringify(one.value)},"received_at":"${received.text(one.at)}","sequence_number":${one.sequence}}\n`;
    },
    points: (property, shown) => {
      const names = aggregates.filter((one) => shown.has(one));
      return (bucket) => {
        const values = Object.fromEntries(names.map((one) => [one, aggregateOf(bucket, one)]));
        return `${JSON.stringify({ at: at.text(bucket.start), property, ...values })}\n`;
      };
    },
  };
}

type StateTimes = { state: boolean | string | null; ms: number }[];

/** An aggregate of an interval as the API shows it. */
export function aggregateOf(bucket: Bucket, name: 'min' | 'max' | 'mean' | 'count'): number | null;
export function aggregateOf(bucket: Bucket, name: 'last'): SampleValue | null;
export function aggregateOf(bucket: Bucket, name: 'states'): StateTimes;
export function aggregateOf(bucket: Bucket, name: Aggregate): SampleValue | StateTimes | null;
export function aggregateOf(
  { count, numbers, last, states }: Bucket,
  name: Aggregate,
): SampleValue | StateTimes | null {
  switch (name) {
    case 'count':
      return count;
    case 'last':
      return last;
    case 'states':
      return states.map(([state, ms]) => ({ state, ms }));
    case 'mean':
      return numbers === null ? null : meanOf(numbers);
    default:
      return numbers === null ? null : numbers[name];
  }
}

export const rowFormats: Readonly<Record<ExportFormat, () => RowFormat>> = { csv: csvFormat, ndjson: ndjsonFormat };
