import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

/*
 * Prints the slowest tests and files of a run: `node scripts/slowest-tests.ts REPORT [COUNT]`, where REPORT is the
 * output of `vitest --reporter=json`.
 */

interface Report {
  testResults: {
    name: string;
    startTime: number;
    endTime: number;
    assertionResults: { fullName: string; duration?: number | null; status: string }[];
  }[];
}

const [path = '', count = '20'] = process.argv.slice(2);
const { testResults } = JSON.parse(readFileSync(path, 'utf8')) as Report;

const files = testResults.map(({ name, startTime, endTime }) => ({
  name: relative(process.cwd(), name),
  ms: endTime - startTime,
}));
const tests = testResults.flatMap(({ name, assertionResults }) =>
  assertionResults.map(({ fullName, duration }) => ({
    name: `${relative(process.cwd(), name)}: ${fullName}`,
    ms: duration ?? 0,
  })),
);
const skipped = testResults.flatMap(({ assertionResults }) =>
  assertionResults.filter(({ status }) => status === 'pending' || status === 'skipped'),
);

function print(title: string, rows: { name: string; ms: number }[]): void {
  console.log(`\n${title}`);
  for (const { name, ms } of rows.toSorted((a, b) => b.ms - a.ms).slice(0, Number(count))) {
    console.log(`${(ms / 1_000).toFixed(1).padStart(7)} s  ${name}`);
  }
}

print(`the slowest ${count} tests`, tests);
print(`the slowest ${count} files`, files);
if (skipped.length > 0) console.log(`\n${skipped.length} tests were skipped`);
