import { readFileSync } from 'node:fs';
import pg from 'pg';
import { median } from '../support/figures.ts';

/** What is watched at one moment: bytes or entries, by name. */
export type Sample = Record<string, number>;

const MB = 1_000_000;
/** Gauges that must not grow with the time that the service runs. */
const GAUGE =
  /^((?:twinkeep_(?:prepared_statements|collection_entries|actors_live|events_waiting)|nodejs_heap_size_used_bytes|nodejs_external_memory_bytes|process_resident_memory_bytes)(?:\{[^}]*\})?) (\S+)$/gm;

/**
 * Printed without a verdict: V8 lets its young generation grow to 64 MiB a half and gives its pages back when it likes. What the heap
 * holds, and what is resident outside of it, are judged.
 */
const RESIDENT = 'process_resident_memory_bytes';

/** The service's own gauges, and with `databaseUrl` the private memory of its sessions in PostgreSQL. */
export async function sample(port: number, databaseUrl: string | null): Promise<Sample> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const text = await response.text();
  const found: Sample = {};
  for (const [, name = '', value] of text.matchAll(GAUGE)) found[name] = Number(value);
  const [, heap] = /^nodejs_heap_size_total_bytes (\S+)$/m.exec(text) ?? [];
  found.resident_outside_heap_bytes = (found[RESIDENT] ?? 0) - Number(heap);
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

/** Memory that no other process shares; 0 where the process has ended meanwhile. */
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
  grown: boolean;
}

/**
 * Compares the second quarter of the time with the last one. The heap is what is left after collections, so its least is
 * taken; of everything else the median.
 */
export function growthOf(samples: readonly Sample[]): Growth[] {
  const quarter = Math.floor(samples.length / 4);
  const names = Object.keys(samples.at(-1) ?? {});
  return names.map((name) => {
    const values = samples.map((one) => one[name] ?? 0);
    const middle = name === 'nodejs_heap_size_used_bytes' ? (list: number[]) => Math.min(...list) : median;
    const before = middle(values.slice(quarter, 2 * quarter));
    const after = middle(values.slice(-quarter));
    return {
      name,
      first: values[0] ?? 0,
      before,
      after,
      grown: name !== RESIDENT && after > before * 1.1 + allowance(name),
    };
  });
}

/** What chance and the allocators may add. */
const allowance = (name: string): number => (name.endsWith('_bytes') ? 24 * MB : 200);

/** Prints what was watched, without what was empty all the time; true where nothing grew. */
export function report(growths: readonly Growth[], short: boolean): boolean {
  const empty = growths.filter(({ first, before, after }) => first + before + after === 0);
  console.log('  first sample → second quarter → last quarter');
  for (const { name, first, before, after, grown } of growths) {
    if (first + before + after === 0) continue;
    const show = (value: number) =>
      name.endsWith('_bytes') ? `${(value / MB).toFixed(1)} MB` : `${Math.round(value)}`;
    const verdict = short || name === RESIDENT ? 'no verdict' : grown ? 'MISSED: it grows' : 'flat';
    console.log(`  ${name}: ${show(first)} → ${show(before)} → ${show(after)}: ${verdict}`);
  }
  console.log(`  empty throughout: ${empty.map(({ name }) => name.match(/"(\w+)"/)?.[1] ?? name).join(', ')}`);
  return growths.every(({ grown }) => !grown);
}
