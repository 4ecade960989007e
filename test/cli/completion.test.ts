import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { completionOf, completionScripts, namesOf, startingWith, unquote } from '../../src/cli/completion.ts';
import { makeIo } from '../../src/cli/io.ts';
import { makeProgram } from '../../src/cli/program.ts';

const [stdin, stdout] = [new PassThrough(), new PassThrough()];
const program = makeProgram(makeIo({ stdin, stdout, stderr: stdout }));

/** The values at the end of a command line, and the kind of names. */
function at(...words: string[]): [values: string[], reference: string | null] {
  const { suggestions, reference, current } = completionOf(program, words);
  return [startingWith(suggestions, current).map(({ value }) => value), reference];
}

describe('a completion', () => {
  it.each([
    ['a verb', ['dev'], ['devices'], null],
    ['a verb after an option with a value', ['--url', 'http://x', 'regi'], ['register-tenant'], null],
    ['a verb of a group', ['keys', 'r'], ['rotate', 'revoke'], null],
    ['a verb by another name of its group', ['plans', 'create', '--dr'], ['--dry-run'], null],
    ['an option', ['devices', 'list', '--on'], ['--online'], null],
    ['an option of the default verb', ['devices', '--on'], ['--online'], null],
    ['an option of the program', ['devices', 'get', '--js'], ['--json'], null],
    ['a choice of an option', ['devices', 'register', 'x', '--alg', 'ed'], ['ed25519'], null],
    ['a choice of an argument', ['completion', 'z'], ['zsh'], null],
    ['a device', ['devices', 'get', 'De'], [], 'device'],
    ['a device after options', ['command', '--wait', '--ttl', '5m', ''], [], 'device'],
    ['one of several devices', ['devices', 'delete', 'one', 'tw'], [], 'device'],
    ['the value of an option', ['devices', 'list', '--home', ''], [], 'home'],
    ['the value after = in bash', ['devices', 'list', '--room', '=', 'Ki'], [], 'room'],
    ['the value at = in bash', ['keys', 'create', 'x', '--group', '='], [], 'group'],
    ['an argument after --', ['plans', 'show', '--', '-x'], [], 'plan'],
    ['a text that only the user knows', ['homes', 'create', 'F'], [], null],
    ['no second argument', ['devices', 'get', 'one', ''], [], null],
  ])('is %s', (_, words, values, reference) => expect(at(...words)).toEqual([values, reference]));

  it('of --name=value has the option before the value', () => {
    const { prefix, current, reference } = completionOf(program, ['devices', 'list', '--home=Fl']);
    expect([prefix, current, reference]).toEqual(['--home=', 'Fl', 'home']);
  });

  it('requests names with the options of the command line', () => {
    const words = ['--url=http://x', 'devices', '--token', "'t'", 'get', ''];
    expect(completionOf(program, words).connection).toEqual({ url: 'http://x', token: 't' });
  });

  it('has no hidden verb', () => {
    const [verbs] = at('');
    expect(verbs).toContain('completion');
    expect(verbs).not.toContain('complete');
  });
});

it.each([
  ['Desk\\ lamp', 'Desk lamp'],
  ['"Desk l', 'Desk l'],
  ["'Desk lamp'", 'Desk lamp'],
  ['"a \\"b\\" \\c"', 'a "b" \\c'],
  ['"', ''],
  ['', ''],
])('the argument %s is the text %j', (word, text) => expect(unquote(word)).toBe(text));

it('a name that several have, or none, is completed by the id', () => {
  const candidates = [
    { id: '01-a', names: ['Lamp'] },
    { id: '01-b', names: ['Lamp'] },
    { id: '01-c', names: [] },
    { id: '02-d', names: ['Kitchen', 'Flat/Kitchen'] },
    { id: '02-e', names: ['Kitchen', 'Office/Kitchen'] },
  ];
  const valuesFor = (current: string) => startingWith(namesOf(candidates, current), current).map(({ value }) => value);
  expect(valuesFor('')).toEqual(['01-a', '01-b', '01-c', 'Flat/Kitchen', 'Office/Kitchen']);
  expect(valuesFor('02')).toEqual(['02-d', '02-e']);
  expect(valuesFor('flat')).toEqual(['Flat/Kitchen']);
});

it('docs/getting-started.md lists the verbs', () => {
  const guide = readFileSync('docs/getting-started.md', 'utf8');
  const [, list = ''] = /--help` lists the commands: (.*?)\. Each has/s.exec(guide) ?? [];
  const [verbs] = at('');
  expect([...list.matchAll(/`([\w-]+)`/g)].map(([, verb]) => verb)).toEqual(verbs.filter((verb) => verb !== 'help'));
});

describe('the script of', () => {
  const installed = (shell: string) =>
    (process.env.PATH ?? '').split(':').some((folder) => {
      try {
        execFileSync('test', ['-x', `${folder}/${shell}`]);
        return true;
      } catch {
        return false;
      }
    });

  it.each(Object.entries(completionScripts))('%s calls the program, and has no syntax error', (shell, script) => {
    expect(script).toContain('twinkeep complete -- ');
    expect(script).not.toMatch(/undefined|\$\{words\}/);
    if (!installed(shell)) return;
    const folder = mkdtempSync(join(tmpdir(), 'twinkeep-completion-'));
    const file = join(folder, 'script');
    writeFileSync(file, script);
    execFileSync(shell, ['-n', file]);
    // Without `compinit` before it: the script loads what it needs.
    if (shell === 'zsh') {
      const env = { ...process.env, HOME: folder, ZDOTDIR: folder };
      const loaded = execFileSync(shell, ['-fc', `source ${file}; print $_comps[twinkeep]`], { env, encoding: 'utf8' });
      expect(loaded).toBe('_twinkeep\n');
    }
    rmSync(folder, { recursive: true });
  });
});
