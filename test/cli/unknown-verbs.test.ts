import { describe, expect, it } from 'vitest';
import { nearestName } from '../../src/cli/unknown-verbs.ts';
import { runCliInProcess } from '../support/cli.ts';

/** No test gets as far as a request. */
const run = (...args: string[]) => runCliInProcess(args, { url: 'http://127.0.0.1:1', token: 'x' });

describe('an unknown verb', () => {
  it.each([
    ['devices lst', ['devices', 'lst'], 'list'],
    ['devices lst with an option of list', ['devices', 'lst', '--online'], 'list'],
    ['plans rn', ['plans', 'rn', 'plan.json'], 'run'],
    ['members remov', ['members', 'remov', 'x'], 'remove'],
    ['devces', ['devces'], 'devices'],
    ['devices lst with --help', ['devices', 'lst', '--help'], 'list'],
    ['commands lst with -h', ['commands', 'lst', '-h'], 'list'],
    ['devces with --help', ['devces', '--help'], 'devices'],
  ])('%s suggests the nearest', async (_, args, nearest) => {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain('unknown command');
    expect(stderr).toContain(`(Did you mean ${nearest}?)`);
  });

  it('that resembles none has no suggestion', async () => {
    const { code, stderr } = await run('devices', 'photosynthesis');
    expect(code).toBe(2);
    expect(stderr).toContain("unknown command 'photosynthesis'");
    expect(stderr).not.toContain('Did you mean');
  });

  it('does not hide the help of known verbs', async () => {
    for (const args of [['devices'], ['devices', 'list'], ['audit', 'export'], [], ['plans', 'create']]) {
      const { code, stdout } = await run(...args, '--help');
      expect([code, stdout]).toEqual([0, expect.stringContaining('Usage: twinkeep')]);
    }
  });

  it('is not what a default verb with options gets', async () => {
    expect((await run('devices', '--online')).code).toBe(3);
    expect((await run('plans', '--limit', '5')).code).toBe(3);
  });
});

it('an unknown option suggests the nearest', async () => {
  const { code, stderr } = await run('devices', 'list', '--onlin');
  expect(code).toBe(2);
  expect(stderr).toContain('(Did you mean --online?)');
});

describe('an argument that begins with a hyphen', () => {
  it('is refused as an option, with a hint', async () => {
    const { code, stderr } = await run('firmware', 'keys', 'remove', '-abc');
    expect(code).toBe(2);
    expect(stderr).toContain("unknown option '-abc'");
    expect(stderr).toContain('To pass it as an argument, put -- before it.');
  });

  it('is accepted after two hyphens', async () => {
    // Gets as far as a request.
    expect((await run('firmware', 'keys', 'remove', '--', '-abc')).code).toBe(3);
  });

  it('is not what an unknown long option gets a hint about', async () => {
    expect((await run('devices', 'list', '--onlin')).stderr).not.toContain('put -- before it');
  });
});

it('a parameter without a value is refused with an error that names it', async () => {
  const lamp = '0195d9a2-7f00-7000-8000-000000000001';
  const { code, stdout, stderr } = await run('command', lamp, 'set_brightness', 'level');
  expect([code, stdout, stderr]).toEqual([2, '', "error: 'level' must have the form name=value.\n"]);
});

it('plans create is plans run, with its help', async () => {
  const { code, stdout } = await run('plans', 'create', '--help');
  expect(code).toBe(0);
  expect(stdout).toContain('Usage: twinkeep plans run|create [options] <file>');
  expect(stdout).toContain('--dry-run');
});

describe('the nearest name', () => {
  it.each([
    ['lst', 'list'],
    ['lits', 'list'],
    ['regster', 'register'],
    ['xyz', null],
    ['', null],
  ])('of %j is %j', (given, expected) => expect(nearestName(given, ['list', 'register', 'get'])).toBe(expected));
});
