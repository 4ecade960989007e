import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/*
 * `npm run bench -- NAME… [--short] [--tries N] [--record]`, or `--all`. A benchmark is a folder with a `main.ts` whose
 * first line is its question. Each runs in its own process, one after another; with `--short` four at a time, because a
 * short run gives no verdict. `--record` also writes the output to `results/NAME.txt`, or to `results/NAME-STORE.txt`
 * with `--store STORE`.
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

/** With `held` the output is printed at the end, for a benchmark that runs concurrently with others. */
function run({ name, file, question }: Benchmark, args: string[], held: boolean): Promise<boolean> {
  const lines = [`\n== ${name}: ${question}\n`];
  const print = (text: string): void => void (held ? lines.push(text) : process.stdout.write(text));
  if (!held) print(lines.splice(0).join(''));
  const started = performance.now();
  // `gc` is exposed to all alike, so that a benchmark and its floor have the same options.
  const child = spawn(process.execPath, ['--expose-gc', file, ...args], { stdio: ['inherit', 'pipe', 'pipe'] });
  child.stdout.setEncoding('utf8').on('data', print);
  child.stderr.setEncoding('utf8').on('data', held ? print : (text: string) => void process.stderr.write(text));
  if (record) {
    mkdirSync(RESULTS, { recursive: true });
    child.stdout.pipe(createWriteStream(new URL(`${store === undefined ? name : `${name}-${store}`}.txt`, RESULTS)));
  }
  return new Promise((resolve) => {
    child.once('error', (error) => {
      console.error(error.message);
      resolve(false);
    });
    child.once('close', (code, signal) => {
      const seconds = ((performance.now() - started) / 1000).toFixed(0);
      print(`== ${name}: ${code === 0 ? 'done' : `failed (${signal ?? code})`} after ${seconds} s\n`);
      if (held) process.stdout.write(lines.join(''));
      resolve(code === 0);
    });
  });
}

const all = benchmarks();
const args = process.argv.slice(2);
/** Options that are followed by a value. */
const optionsWithValue = new Set(['--tries', '--minutes', '--store', '--pause', '--profile']);
const names = args.filter((arg, at) => !arg.startsWith('--') && !optionsWithValue.has(args[at - 1] ?? ''));
const record = args.includes('--record');
/** For a benchmark that can measure a single store. */
const [, store] = /^--store[=\n](.+)$/m.exec(args.join('\n')) ?? [];
const options = args.filter((arg) => !names.includes(arg) && arg !== '--all' && arg !== '--record');
const unknown = names.filter((name) => !all.some((one) => one.name === name));
const chosen = args.includes('--all') ? all : all.filter((one) => names.includes(one.name));

if (unknown.length > 0 || chosen.length === 0) {
  if (unknown.length > 0) console.error(`unknown benchmark: ${unknown.join(', ')}\n`);
  console.error('usage: npm run bench -- NAME… | --all  [--short] [--tries N] [--record]\n');
  for (const { name, question } of all) console.error(`  ${name.padEnd(10)} ${question}`);
  process.exit(2);
}

const failed: string[] = [];
const lanes = options.includes('--short') && chosen.length > 1 ? 4 : 1;
/** In reverse order: the soak takes longest in a short run. */
const queue = lanes === 1 ? [...chosen] : chosen.toReversed();
await Promise.all(
  Array.from({ length: lanes }, async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (!(await run(next, options, lanes > 1))) failed.push(next.name);
    }
  }),
);
if (failed.length > 0) {
  console.error(`\nfailed: ${failed.join(', ')}`);
  process.exitCode = 1;
}
