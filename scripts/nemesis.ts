/**
 * Runs three nodes under load with one fault at a time, and checks everything that clients were promised:
 * `npm run nemesis -- --rounds 300 --seed 1`; `--short` for the faults that are over soon, with fixed seeds;
 * `--defects` for the planted defects. Needs an installed PostgreSQL.
 */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { StageResult } from '../test/nemesis/stages.ts';

const DEFAULT_ROUNDS = '100';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    seed: { type: 'string' },
    short: { type: 'boolean' },
    defects: { type: 'boolean' },
    /** Only this defect. */
    defect: { type: 'string' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-nemesis-results-'));
const results = join(folder, 'results');
const defects = values.defects || values.defect !== undefined;
const seed = values.seed ?? `${Date.now() % 2 ** 31}`;
const env = {
  ...process.env,
  NEMESIS: '1',
  RESULTS: results,
  ...(!values.short && !defects && { ROUNDS: values.rounds ?? DEFAULT_ROUNDS, SEED: seed }),
  ...(values.defect !== undefined && { DEFECT: values.defect }),
};
const file = `test/nemesis/${defects ? 'defects' : 'nodes'}.test.ts`;
const args = ['--no-install', 'vitest', 'run', '--project', 'nemesis', '--silent=false', file];
spawn('npx', args, { env, stdio: 'inherit' }).once('exit', (code) => {
  if (existsSync(results)) process.stdout.write(summary(readFileSync(results, 'utf8')));
  rmSync(folder, { recursive: true, force: true });
  process.exitCode = code ?? 1;
});

function summary(lines: string): string {
  const stages = lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as StageResult);
  const rounds = stages.reduce((sum, stage) => sum + stage.rounds, 0);
  const violations = stages.filter(({ violation }) => violation !== null).length;
  const failures = stages.filter(({ failure }) => failure !== null).length;
  const rows = stages.map(
    (stage) =>
      `  seed ${stage.seed}, ${stage.timing}: ${stage.rounds} rounds${stage.verified ? '' : ', not verified'}` +
      `${stage.violation === null ? '' : `; violation: ${stage.violation}`}` +
      `${stage.failure === null ? '' : `; failure: ${stage.failure}`}`,
  );
  return (
    `nemesis of ${version()}: ${rounds} rounds in ${stages.length} stages, ${violations} with a violation, ` +
    `${failures} with another failure\n${rows.join('\n')}\n`
  );
}

function version(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).trim();
  } catch {
    return 'an unknown version';
  }
}
