/**
 * Runs three nodes under load with faults of one node at a time, and checks everything that was acknowledged:
 * `npm run nemesis -- --rounds 300 --seed 1`. Needs an installed PostgreSQL.
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { rounds: { type: 'string' }, seed: { type: 'string' } } });
const seed = values.seed ?? `${Date.now() % 2 ** 31}`;
const env = { ...process.env, ROUNDS: values.rounds ?? '100', SEED: seed };
const args = ['--no-install', 'vitest', 'run', '--project', 'nemesis'];
spawn('npx', args, { env, stdio: 'inherit' }).once('exit', (code) => {
  process.stdout.write(`seed ${seed}\n`);
  process.exitCode = code ?? 1;
});
