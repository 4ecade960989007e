import { type Command, InvalidArgumentError, Option } from 'commander';
import { csvRecord } from '../../domain/csv.ts';
import { pathNamesOf } from '../../domain/history/sample.ts';
import type { Manifest } from '../../domain/manifest.ts';
import { steppedProperties } from '../../domain/stepped-properties.ts';
import { propertyUnits, seriesUnit } from '../../domain/units.ts';
import type { Api } from '../api.ts';
import { parseIntegerBetween, parsePast } from '../argument-parsers.ts';
import { type CliContext, createCliContext } from '../cli-context.ts';
import { RefusedError, UsageError } from '../errors.ts';
import { chartLines, chartNumber, stateTotals } from '../history-chart.ts';
import { followReports } from '../history-following.ts';
import {
  chartValues,
  fetchHistory,
  type History,
  type HistoryPoint,
  type HistoryQuery,
  type HistorySample,
} from '../history-reading.ts';
import type { Io } from '../io.ts';
import { printTable } from '../print.ts';
import { printKnownProperties } from '../property-hint.ts';
import { formatAxisTime, formatDuration, formatTime } from '../time-text.ts';

const aggregates = ['min', 'max', 'mean', 'last', 'count', 'states'];

function parseStep(text: string): string {
  if (/^(?:raw|changes|[1-9]\d{0,4}[smhd])$/.test(text)) return text;
  throw new InvalidArgumentError('It must be raw, changes, or a duration such as 30s, 15m, 1h or 7d.');
}

function parseAggregates(text: string): string {
  if (text.split(',').every((name) => aggregates.includes(name))) return text;
  throw new InvalidArgumentError(`It must be one or more of ${aggregates.join(', ')}, separated by commas.`);
}

interface Options {
  last?: string;
  from?: string;
  to?: string;
  step?: string;
  agg?: string;
  csv?: boolean;
  ascii?: boolean;
  follow?: boolean;
  count?: number;
}

const RANGE_OPTIONS = ['last', 'from', 'to', 'step', 'agg', 'csv', 'ascii'];

export function addHistory(program: Command, io: Io): void {
  program
    .command('history <device> <property>')
    .summary('show what a device reported over a time')
    .description(
      'Shows the history of a property: on a terminal as a chart, otherwise as a table. Numbers are drawn from their\n' +
        'minimum to their maximum, texts and booleans as a band for each value; a time without reports stays blank,\n' +
        'unless the number lasts until the next one, as a target does.\n' +
        'A property is a path in the state, as climate.temperature.',
    )
    .addOption(
      new Option('--last <duration>', 'for this long until now, such as 90m, 24h or 30d (default: 24h)')
        .argParser(parsePast)
        .conflicts(['from', 'to']),
    )
    .option('--from <time>', 'from this time on, or from so long ago', parsePast)
    .option('--to <time>', 'before this time, or before so long ago', parsePast)
    .option('--step <step>', 'raw for samples, changes, or the length of intervals, such as 15m', parseStep)
    .option('--agg <names>', `print a table with these aggregates: ${aggregates.join(', ')}`, parseAggregates)
    .option('--csv', 'print CSV')
    .option('--ascii', 'draw with ASCII characters, as in a locale without UTF-8')
    .addOption(new Option('--follow', 'print new samples as they are reported, until Ctrl-C').conflicts(RANGE_OPTIONS))
    .option('--count <n>', 'with --follow, stop after this many samples', parseIntegerBetween(1, 1_000_000))
    .addHelpText(
      'after',
      '\nExamples:\n  twinkeep history "Living room" temperature --last 7d\n' +
        '  twinkeep history Door locked --step changes --csv > door.csv\n  twinkeep history Oven temperature --follow',
    )
    .action(async (device: string, property: string, options: Options, command: Command) => {
      const client = createCliContext(io, command);
      if (options.csv && client.json) throw new UsageError('give either --csv or --json');
      if (options.count !== undefined && !options.follow) throw new UsageError('--count needs --follow');
      const deviceId = await client.resolve('device', device);
      if (options.follow) return followReports(client, { deviceId, device, property, count: options.count });
      await showHistory(client, { deviceId, device, property }, options);
    });
}

interface Subject {
  deviceId: string;
  /** As the user wrote it. */
  device: string;
  property: string;
}

async function showHistory(client: CliContext, subject: Subject, options: Options): Promise<void> {
  const { io, api, json } = client;
  const { last, to, step, agg } = options;
  const query: HistoryQuery = { property: subject.property, from: last ?? options.from, to, step, agg };
  const history = await fetchHistory(api, subject.deviceId, query);
  client.show({ history }, () => {
    if (options.csv) printCsv(io, history, agg);
    else if (io.stdout.isTTY !== true || agg !== undefined) printValues(io, history);
  });
  if (history.next_from !== null)
    io.err(io.errColors.dim(`more: --from ${history.next_from}${to === undefined ? '' : ` --to ${to}`}`));
  if (json || options.csv) return;
  const isDrawn = io.stdout.isTTY === true && agg === undefined;
  const manifest = isDrawn ? await fetchManifest(api, subject.deviceId) : null;
  const isStepped = manifest !== null && isSteppedIn(manifest, subject.property);
  if (isEmpty(history) && !(isStepped && typeof history.before === 'number')) {
    if (io.stdout.isTTY === true) io.err(io.errColors.dim('none'));
    return printKnownProperties(io, api, subject);
  }
  if (!isDrawn) return;
  const unit = unitOf(manifest, subject.property);
  printChart(io, history, { ...subject, ascii: options.ascii === true, unit, isStepped });
}

const isSteppedIn = ({ capabilities, properties }: ManifestRecord, property: string): boolean =>
  steppedProperties(capabilities, properties).has(pathNamesOf(property).join('.'));

const isEmpty = ({ samples, points }: History): boolean => (samples ?? points ?? []).length === 0;

type ManifestRecord = Pick<Manifest, 'capabilities' | 'properties'>;

/** Null if the credential may not read manifests, or the device has none. */
async function fetchManifest(api: Api, deviceId: string): Promise<ManifestRecord | null> {
  try {
    return await api.get<ManifestRecord>(`/v1/devices/${encodeURIComponent(deviceId)}/manifest`);
  } catch (thrown) {
    if (thrown instanceof RefusedError) return null;
    throw thrown;
  }
}

/** From the manifest, or the end of the property's name. */
function unitOf(manifest: ManifestRecord | null, property: string): string | null {
  const units = manifest === null ? undefined : propertyUnits(manifest.capabilities, manifest.properties);
  return seriesUnit(property, units) ?? null;
}

interface Drawing extends Subject {
  unit: string | null;
  /** Whether a number lasts until the next one. */
  isStepped: boolean;
  ascii: boolean;
}

function printChart(io: Io, history: History, { device, property, unit, isStepped, ascii }: Drawing): void {
  const from = Date.parse(history.from);
  const values = chartValues(history, Math.min(Date.parse(history.to), Date.now()), isStepped);
  // A range ends in the future, as the clock of a device may be ahead.
  const end = values.reduce((latest, value) => Math.max(latest, value.start), Date.now());
  const to = Math.min(Date.parse(history.to), end);
  io.out(`${io.outColors.bold(property)}${unit === null ? '' : ` (${unit})`} ${io.outColors.dim(`of ${device}`)}`);
  const timeText = (at: number) => formatAxisTime(io, at, to - from);
  const options = { width: io.stdout.columns ?? 80, ascii: ascii || !io.utf8, from, to, timeText };
  for (const line of chartLines(values, options)) io.out(line);
  for (const line of summaryOf(io, history, values)) io.out(io.outColors.dim(line));
}

function summaryOf(io: Io, history: History, values: ReturnType<typeof chartValues>): string[] {
  const numbers = values.filter(({ min }) => min !== null);
  const low = numbers.reduce((least, { min }) => Math.min(least, min ?? least), Number.POSITIVE_INFINITY);
  const high = numbers.reduce((most, { max }) => Math.max(most, max ?? most), Number.NEGATIVE_INFINITY);
  const shown = (value: number) => chartNumber(value, high - low);
  const { samples, points, step, source } = history;
  const count = samples?.length ?? points?.reduce((sum, one) => sum + (one.count ?? 0), 0) ?? 0;
  const sample = samples?.at(-1);
  const last = sample ? `${sample.value} at ${formatTime(io, sample.at)}` : lastOf(points ?? []);
  const what =
    samples === null ? `intervals of ${step} from ${source === 'samples' ? source : `roll-ups of ${source}`}` : step;
  const totals = [...stateTotals(values)].map(([name, ms]) => `${name} ${formatDuration(ms)}`);
  return [
    [
      ...(numbers.length === 0 ? [] : [`min ${shown(low)}, max ${shown(high)}`]),
      ...(last === null ? [] : [`last ${last}`]),
      `${count} ${count === 1 ? 'sample' : 'samples'}, ${what}`,
    ].join('; '),
    ...(totals.length === 0 ? [] : [totals.join('; ')]),
  ];
}

const lastOf = (points: readonly HistoryPoint[]): HistoryPoint['last'] =>
  points.findLast(({ last }) => last !== null)?.last ?? null;

const statesText = ({ states }: HistoryPoint): string =>
  (states ?? []).map(({ state, ms }) => `${state ?? '(other)'} ${formatDuration(ms)}`).join(', ');

function printValues(io: Io, { samples, points }: History): void {
  if (samples !== null) {
    const rows = samples.map((one) => [one.at, textOf(one.value), one.received_at, one.sequence_number]);
    printTable(io, ['AT', 'VALUE', 'RECEIVED', 'SEQUENCE'], rows);
    return;
  }
  const columns = (['count', 'min', 'mean', 'max', 'last', 'states'] as const).filter((name) =>
    points?.some((point) => (name === 'states' ? point.states?.length : point[name] !== null)),
  );
  const rows = (points ?? []).map((point) => [
    point.at,
    ...columns.map((name) => {
      if (name === 'states') return statesText(point);
      return name === 'mean' ? meanText(point) : textOf(point[name]);
    }),
  ]);
  printTable(io, ['AT', ...columns.map((name) => name.toUpperCase())], rows);
}

/** Digits of a mean; the division that made it leaves up to 17. */
const MEAN_DIGITS = 6;

const meanText = ({ mean }: HistoryPoint): number | null =>
  mean === null || Math.abs(mean) >= 10 ** MEAN_DIGITS ? mean : Number(mean.toPrecision(MEAN_DIGITS));

const textOf = (value: HistorySample['value'] | null): string | number | null =>
  typeof value === 'boolean' ? String(value) : value;

function printCsv(io: Io, { samples, points }: History, agg: string | undefined): void {
  // `out` adds the line feed, and escapes what a terminal would act on.
  const record = (fields: readonly (string | number | null)[]) => io.out(csvRecord(fields).slice(0, -2));
  if (samples !== null) {
    record(['at', 'value', 'received_at', 'sequence_number']);
    for (const one of samples) record([one.at, textOf(one.value), one.received_at, one.sequence_number]);
    return;
  }
  const columns = (['count', 'min', 'mean', 'max', 'last', 'states'] as const).filter(
    (name) => agg === undefined || agg.split(',').includes(name),
  );
  record(['at', ...columns]);
  for (const point of points ?? [])
    record([point.at, ...columns.map((name) => (name === 'states' ? statesJson(point) : textOf(point[name])))]);
}

const statesJson = ({ states }: HistoryPoint): string | null =>
  states === null || states.length === 0 ? null : JSON.stringify(states);
