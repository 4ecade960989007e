import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installHint } from '../../src/cli/install-hint.ts';
import { nodeEnv, nodeFlags } from '../support/node-flags.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
let folder: string;

/** The command line in a folder whose installation a test makes incomplete. */
function run(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const env = { PATH: nodeEnv.PATH ?? '', DATA_DIR: join(folder, 'data'), LOG_FORMAT: 'pretty' };
  const main = join(folder, 'src/cli/main.ts');
  return spawnSync(process.execPath, [...nodeFlags, main, ...args], { env, encoding: 'utf8', timeout: 25_000 });
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'twinkeep-incomplete-'));
  for (const name of ['src', 'proto', 'package.json'])
    cpSync(join(root, name), join(folder, name), { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('the command line of an incomplete installation', () => {
  it('names the missing part and how to install it, where nothing is installed', () => {
    const { status, stdout, stderr } = run('--help');
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^error: A part of twinkeep, \S+, is not installed\. Install it with: npm install --global twinkeep\n$/,
    );
    writeFileSync(join(folder, 'package-lock.json'), '{}');
    expect(run('--help').stderr).toMatch(/ is not installed\. Install it with: npm ci \(in .*\)\n$/);
    rmSync(join(folder, 'package-lock.json'));
  });

  it('does so for a part that only one command needs, and runs the others', () => {
    mkdirSync(join(folder, 'node_modules'), { recursive: true });
    // The folder has a cache of compiled modules after the first test.
    for (const name of readdirSync(join(root, 'node_modules')))
      if (name !== 'pg' && !name.startsWith('.'))
        symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name));
    expect(run('--help')).toMatchObject({ status: 0, stderr: '' });
    const { status, stderr } = run('serve');
    expect(status).toBe(1);
    expect(stderr).toContain(
      'error: A part of twinkeep, pg, is not installed. Install it with: npm install --global twinkeep\n',
    );
  });

  it('does so for a package that only one setting needs, and for a source file', () => {
    rmSync(join(folder, 'node_modules/pino-pretty'));
    expect(run('serve').stderr).toBe(
      'error: A part of twinkeep, pino-pretty, is not installed. Install it with: npm install --global twinkeep\n',
    );
    rmSync(join(folder, 'src/main.ts'));
    symlinkSync(join(root, 'node_modules/pino-pretty'), join(folder, 'node_modules/pino-pretty'));
    expect(run('serve').stderr).toContain('error: A part of twinkeep, src/main.ts, is not installed.');
    rmSync(join(folder, 'src/cli/run.ts'));
    expect(run('--help').stderr).toMatch(/^error: A part of twinkeep, src\/cli\/run\.ts, is not installed\./);
  });
});

it('leaves other errors alone', () => {
  expect(installHint(new Error("Cannot find package 'a'"))).toBeNull();
  expect(installHint('ERR_MODULE_NOT_FOUND')).toBeNull();
  const absent = { code: 'ENOENT', path: join(root, 'firmware.js') };
  expect(installHint(Object.assign(new Error('ENOENT: no such file'), absent))).toBeNull();
});
