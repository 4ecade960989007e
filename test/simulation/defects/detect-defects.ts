import { readFile, writeFile } from 'node:fs/promises';
import { wholeRun } from '../options.ts';
import type { RunResult } from '../run.ts';
import { runAll } from '../workers.ts';
import { defects } from './list.ts';

const SEEDS = 200;
const PAGE = new URL('../../../docs/testing.md', import.meta.url);
const BEGIN = '<!-- defects: written by npm run simulate -- --defects -->';
const END = '<!-- end of defects -->';

interface Found {
  name: string;
  title: string;
  by: { seed: number; invariant: string } | null;
}

/** Searches for each defect with the fixed seeds, and writes the table in `docs/testing.md`. */
export async function detectDefects(workers: number): Promise<boolean> {
  const found: Found[] = [];
  const names = Object.keys(defects);
  const next = async () => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      const one = await search(name);
      found.push(one);
      const by = one.by === null ? 'NOT FOUND' : `seed ${one.by.seed}, ${one.by.invariant}`;
      process.stdout.write(`${name}: ${by}\n`);
    }
  };
  await Promise.all(Array.from({ length: workers }, next));
  found.sort((a, b) => Object.keys(defects).indexOf(a.name) - Object.keys(defects).indexOf(b.name));
  await writeTable(found);
  return found.every(({ by }) => by !== null);
}

async function search(name: string): Promise<Found> {
  const runs = Array.from({ length: SEEDS }, (_, n) => wholeRun(n + 1));
  let by: Found['by'] = null;
  const each = ({ seed, violations: [first] }: RunResult) => {
    if (first !== undefined) by = { seed, invariant: first.invariant };
  };
  await runAll(runs, 1, each, { defect: name, stopAtFirst: true });
  return { name, title: defects[name]?.title ?? '', by };
}

async function writeTable(found: readonly Found[]): Promise<void> {
  const page = await readFile(PAGE, 'utf8');
  const [head, rest] = page.split(BEGIN);
  const tail = rest?.split(END)[1];
  if (head === undefined || tail === undefined) throw new Error('docs/testing.md has no place for the table');
  const rows = found.map(
    ({ name, title, by }) =>
      `| \`${name}\` | ${title} | ${by?.seed ?? '–'} | ${by === null ? 'not found' : `\`${by.invariant}\``} |`,
  );
  const table = ['| defect | what is wrong | first seed | invariant |', '|---|---|---|---|', ...rows].join('\n');
  await writeFile(PAGE, `${head}${BEGIN}\n${table}\n${END}${tail}`);
}
