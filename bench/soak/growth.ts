import { readFileSync } from 'node:fs';
import pg from 'pg';
import { median } from '../support/figures.ts';

/** Values at one moment: bytes or entries, by name. */
export type Sample = Record<string, number>;

const MB = 1_000_000;
/** Margin for allocators and noise. */
const BYTES_ALLOWED = 24 * MB;
/**
 * V8 fills both halves of the young generation, 64 MiB each (`--max-semi-space-size`), and returns their pages late: 2
 * × 64 MiB may be resident or not.
 */
const YOUNG_GENERATION = 2 * 64 * 2 ** 20;
/**
 * Margin for entries of collections: most have one per device, connection or user of the load, whose numbers are
 * constant.
 */
const ENTRIES_ALLOWED = 20;
/** Relative growth that is allowed in addition. */
const PART_ALLOWED = 0.1;
/** Gauges that must not grow with uptime. */
const GAUGE =
  /^((?:twinkeep_(?:prepared_statements|collection_entries|actors_live|events_waiting)|nodejs_heap_size_used_bytes|nodejs_external_memory_bytes|process_resident_memory_bytes)(?:\{[^}]*\})?) (\S+)$/gm;

/**
 * `nodejs_heap_size_used_bytes` and `resident_outside_heap_bytes`, which have limits too, show where a rise comes from.
 */
const RESIDENT_BYTES = 'process_resident_memory_bytes';

/** Requests per second of the load: a reference for other values, without a limit. */
export const LOAD_RATE = 'requests_per_second';

/**
 * Commands and plans are live while they are in flight, and for the idle time after an ended one was read, as a
 * rollback reads the steps of its plan. Their number follows the load, so its limit is scaled with the load of the last
 * quarter.
 */
const FOLLOWS_LOAD = /^twinkeep_actors_live\{kind="(?:command|plan)"\}$/;

/**
 * The service's gauges; with `databaseUrl` the private memory of its PostgreSQL sessions; and the load in requests per
 * second since the previous sample.
 */
export async function takeSample(port: number, databaseUrl: string | null, requestsPerSecond: number): Promise<Sample> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const text = await response.text();
  const found: Sample = { [LOAD_RATE]: requestsPerSecond };
  for (const [, name = '', value] of text.matchAll(GAUGE)) found[name] = Number(value);
  const [, heap] = /^nodejs_heap_size_total_bytes (\S+)$/m.exec(text) ?? [];
  found.resident_outside_heap_bytes = (found[RESIDENT_BYTES] ?? 0) - Number(heap);
  if (databaseUrl !== null) found.postgres_sessions_bytes = await sessionBytes(databaseUrl);
  return found;
}

async function sessionBytes(url: string): Promise<number> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    const text = `select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend'
      and pid <> pg_backend_pid()`;
    const { rows } = await client.query<{ pid: number }>(text);
    return rows.reduce((sum, { pid }) => sum + privateBytes(pid), 0);
  } finally {
    await client.end();
  }
}

/** Memory that is not shared with other processes; 0 if the process has ended. */
function privateBytes(pid: number): number {
  try {
    const [, kilobytes] = /^RssAnon:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes ?? 0) * 1024;
  } catch {
    return 0;
  }
}

interface Growth {
  name: string;
  /** The first sample, and the medians of the second and of the last quarter. */
  first: number;
  before: number;
  after: number;
  /** Limit for the last quarter; null for the load, which has none. */
  atMost: number | null;
}

export const hasGrown = ({ after, atMost }: Growth): boolean => atMost !== null && after > atMost;

/**
 * Compares the second quarter of the run with the last one. The heap in use is what remains after collections, so its
 * minimum is used; for all other values the median.
 */
export function measureGrowth(samples: readonly Sample[]): Growth[] {
  const quarter = Math.floor(samples.length / 4);
  const names = Object.keys(samples.at(-1) ?? {});
  const quarters = (name: string) => {
    const values = samples.map((one) => one[name] ?? 0);
    const middle = name === 'nodejs_heap_size_used_bytes' ? (list: number[]) => Math.min(...list) : median;
    const before = middle(values.slice(quarter, 2 * quarter));
    return { first: values[0] ?? 0, before, after: middle(values.slice(-quarter)) };
  };
  const load = quarters(LOAD_RATE);
  const moreLoad = load.before > 0 ? Math.max(1, load.after / load.before) : 1;
  return names.map((name) => {
    const found = quarters(name);
    return { name, ...found, atMost: name === LOAD_RATE ? null : atMostOf(name, found.before, moreLoad) };
  });
}

/**
 * Limit of a value in the last quarter. `before`: its value in the second quarter; `moreLoad`: load of the last quarter
 * as a multiple of that of the second.
 */
function atMostOf(name: string, before: number, moreLoad: number): number {
  const expected = FOLLOWS_LOAD.test(name) ? before * moreLoad : before;
  return expected * (1 + PART_ALLOWED) + allowance(name);
}

function allowance(name: string): number {
  if (name === RESIDENT_BYTES) return BYTES_ALLOWED + YOUNG_GENERATION;
  return name.endsWith('_bytes') ? BYTES_ALLOWED : ENTRIES_ALLOWED;
}

/** Prints the values, without those that were always zero; true if none grew. */
export function printGrowth(growths: readonly Growth[], short: boolean): boolean {
  const empty = growths.filter(({ first, before, after }) => first + before + after === 0);
  console.log('  first sample → second quarter → last quarter; at most in the last quarter');
  for (const growth of growths) {
    const { name, first, before, after, atMost } = growth;
    if (first + before + after === 0) continue;
    const show = (value: number) =>
      name.endsWith('_bytes') ? `${(value / MB).toFixed(1)} MB` : `${Math.round(value)}`;
    const verdict = short ? 'short run, no verdict' : hasGrown(growth) ? 'MISSED: it grows' : 'flat';
    const judged = atMost === null ? '' : `; at most ${show(atMost)}: ${verdict}`;
    console.log(`  ${name}: ${show(first)} → ${show(before)} → ${show(after)}${judged}`);
  }
  console.log(`  empty throughout: ${empty.map(({ name }) => name.match(/"(\w+)"/)?.[1] ?? name).join(', ')}`);
  return !growths.some(hasGrown);
}
