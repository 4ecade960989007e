import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/*
 * `npm run bench -- NAME… [--short] [--tries N] [--record]`, or `--all`. A benchmark is a folder with a `main.ts` whose first
 * line is its question; each runs in a process of its own, one after another. `--record` also writes the output to
 * `results/NAME.txt`.
 */

const HERE = new URL('.', import.meta.url);
const RESULTS = new URL('results/', HERE);

interface Benchmark {
  name: string;
  file: string;
  question: string;
}

function benchmarks(): Benchmark[] {
  return readdirSync(HERE, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(new URL(`${entry.name}/main.ts`, HERE)))
    .map(({ name }) => {
      const file = fileURLToPath(new URL(`${name}/main.ts`, HERE));
      const [first = ''] = readFileSync(file, 'utf8').split('\n', 1);
      return { name, file, question: first.replace(/^\/\/ */, '') };
    })
    .sort((a, b) => a.name.localeCompare(b.name));
}

function run({ name, file, question }: Benchmark, args: string[]): Promise<boolean> {
  console.log(`\n== ${name}: ${question}`);
  const started = performance.now();
  // `gc` is asked for by all alike: what one benchmark may do, its floor may too.
  const child = spawn(process.execPath, ['--expose-gc', file, ...args], { stdio: ['inherit', 'pipe', 'inherit'] });
  child.stdout.pipe(process.stdout, { end: false });
  if (record) {
    mkdirSync(RESULTS, { recursive: true });
    child.stdout.pipe(createWriteStream(new URL(`${name}.txt`, RESULTS)));
  }
  return new Promise((resolve) => {
    child.once('error', (error) => {
      console.error(error.message);
      resolve(false);
    });
    child.once('close', (code, signal) => {
      const seconds = ((performance.now() - started) / 1000).toFixed(0);
      console.log(`== ${name}: ${code === 0 ? 'done' : `failed (${signal ?? code})`} after ${seconds} s`);
      resolve(code === 0);
    });
  });
}

const all = benchmarks();
const args = process.argv.slice(2);
/** Options that a value follows. */
const valued = new Set(['--tries', '--minutes', '--store', '--pause', '--profile']);
const names = args.filter((arg, at) => !arg.startsWith('--') && !valued.has(args[at - 1] ?? ''));
const record = args.includes('--record');
const options = args.filter((arg) => !names.includes(arg) && arg !== '--all' && arg !== '--record');
const unknown = names.filter((name) => !all.some((one) => one.name === name));
const chosen = args.includes('--all') ? all : all.filter((one) => names.includes(one.name));

if (unknown.length > 0 || chosen.length === 0) {
  if (unknown.length > 0) console.error(`no such benchmark: ${unknown.join(', ')}\n`);
  console.error('usage: npm run bench -- NAME… | --all  [--short] [--tries N] [--record]\n');
  for (const { name, question } of all) console.error(`  ${name.padEnd(10)} ${question}`);
  process.exit(2);
}

const failed: string[] = [];
for (const benchmark of chosen) if (!(await run(benchmark, options))) failed.push(benchmark.name);
if (failed.length > 0) {
  console.error(`\nfailed: ${failed.join(', ')}`);
  process.exitCode = 1;
}
