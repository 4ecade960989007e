import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, inject, it } from 'vitest';

const { 'systemd-analyze': analyze } = inject('programs');
const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const unit = read('deploy/systemd/twinkeep.service');
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-systemd-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const command = /^ExecStart=(.*)$/m.exec(unit)?.[1]?.split(' ') ?? [];

it('starts the binary of the package with the options of npm start', () => {
  const { scripts, bin } = JSON.parse(read('package.json'));
  const options = scripts.start.split(' ').filter((word: string) => word.startsWith('--'));
  expect(command).toEqual([
    ...['/usr/bin/node', ...options],
    ...[`/opt/twinkeep/node_modules/twinkeep/${bin.twinkeep}`, 'serve'],
  ]);
});

it.runIf(analyze)('is valid, and its processes can do little to the machine', () => {
  const file = join(folder, 'twinkeep.service');
  // The verification checks that the program exists.
  writeFileSync(file, unit.replace('ExecStart=/usr/bin/node', `ExecStart=${process.execPath}`));
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(analyze ?? '', args, { encoding: 'utf8' });
    return { status, text: stdout + stderr };
  };
  expect(run('verify', '--man=no', file)).toEqual({ status: 0, text: '' });
  // In tenths of the exposure level, of which 10 is the worst.
  expect(run('security', '--offline=true', '--threshold=20', file).status).toBe(0);
});
