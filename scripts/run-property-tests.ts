import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

/*
 * Runs the property tests with new seeds: `npm run test:properties -- --rounds 20`, or `SEED=… npm run test:properties` to repeat one. The
 * gate runs them with one fixed seed. Stops at the first seed that fails and prints the command that repeats it.
 */

/** Of a test, also while it searches for the smallest input that fails. */
const TIME_LIMIT_MS = 300_000;

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '1' } },
  allowPositionals: true,
});
const rounds = process.env.SEED === undefined ? Number(values.rounds) : 1;

const files = globSync('test/**/*.test.ts')
  .filter((file) => /\bfrom '[./]+support\/properties\.ts'/.test(readFileSync(file, 'utf8')))
  .filter((file) => positionals.length === 0 || positionals.some((name) => file.includes(name)))
  .sort();

for (let round = 1; round <= rounds; round += 1) {
  const seed = process.env.SEED ?? `${randomInt(2 ** 31)}`;
  console.log(`round ${round} of ${rounds}: SEED=${seed}, ${files.length} files`);
  const { status } = spawnSync(
    process.execPath,
    // Ten times as many runs as in a gate.
    ['node_modules/vitest/vitest.mjs', 'run', '--reporter=dot', `--testTimeout=${TIME_LIMIT_MS}`, ...files],
    {
      stdio: 'inherit',
      env: { ...process.env, SEED: seed },
    },
  );
  if (status !== 0) {
    console.error(`seed ${seed} failed. Repeat it: SEED=${seed} npm run test:properties -- FILE`);
    process.exit(1);
  }
}
