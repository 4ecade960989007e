import { PassThrough } from 'node:stream';
import { type Argument, type Command, InvalidArgumentError, type Option } from 'commander';
import { describe, expect, it } from 'vitest';
import { makeIo } from '../../src/cli/io.ts';
import { makeProgram } from '../../src/cli/program.ts';
import { expectNoLibraryText } from '../support/error-texts.ts';

const [stdin, stdout] = [new PassThrough(), new PassThrough()];
const program = makeProgram(makeIo({ stdin, stdout, stderr: stdout }));

type Parser = NonNullable<(Option | Argument)['parseArg']>;

/** The parser of each option and argument that has one, by its place. */
function parsersOf(command: Command, path: string): [string, Parser][] {
  const all = [...command.options, ...command.registeredArguments];
  const own = all.flatMap((one): [string, Parser][] => {
    const name = 'flags' in one ? one.flags : one.name();
    return one.parseArg === undefined ? [] : [[`${name} of ${path}`, one.parseArg as Parser]];
  });
  return [...own, ...command.commands.flatMap((inner) => parsersOf(inner, `${path} ${inner.name()}`))];
}

const wrong = ['', ' ', 'no such value', '-1', '0', '1e400', '9'.repeat(30), '{', '{"a":', '[]', 'null', '2026-02-30T'];

/** Repeatable options whose parser collects every text, and the part that checks the collected values. */
const collected: Readonly<Record<string, string>> = {
  '--scope <scope> of twinkeep token': 'the command, before it signs the token',
  '--device <device> of twinkeep watch': 'the command, which looks for the device',
  '--device <device> of twinkeep devices command': 'the command, which looks for the devices',
  '--scope <verb:resource> of twinkeep keys create': 'the service, in the request',
  '--home <home> of twinkeep keys create': 'the command, which looks for the home',
  '--room <room> of twinkeep keys create': 'the command, which looks for the room',
  '--group <group> of twinkeep keys create': 'the command, which looks for the group',
  '--device <device> of twinkeep keys create': 'the command, which looks for the device',
  '--category <name> of twinkeep keys create': 'the service, in the request',
  '--action <name> of twinkeep keys create': 'the service, in the request',
  '--tag <tag> of twinkeep devices list': 'the service, in the request',
  '--tag <tag> of twinkeep devices register': 'the service, in the request',
  '--tag <tag> of twinkeep memories add': 'the service, in the request',
  '--firmware-key <public-key> of twinkeep simulate': 'the command, before it registers devices',
};

const parsers = parsersOf(program, 'twinkeep');

/** Refusals of the wrong values. */
function refusalsBy(parse: Parser): InvalidArgumentError[] {
  return wrong.flatMap((value) => {
    try {
      parse(value, undefined);
      return [];
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidArgumentError);
      return [error as InvalidArgumentError];
    }
  });
}

describe('a wrong value', () => {
  it.each(parsers.filter(([name]) => !(name in collected)))(
    'for %s is refused in a text of the command line',
    (_, parse) => {
      const refusals = refusalsBy(parse);
      expect(refusals).not.toEqual([]);
      for (const { message } of refusals) expectNoLibraryText(message);
    },
  );

  it.each(Object.entries(collected))('for %s is left to %s', (name) => {
    const parse = new Map(parsers).get(name) as Parser;
    expect(refusalsBy(parse)).toEqual([]);
  });
});

it('every list requests pages of 200 entries', () => {
  const limitsOf = (command: Command): unknown[] => [
    ...command.options.filter(({ long }) => long === '--limit').map(({ defaultValue }) => defaultValue),
    ...command.commands.flatMap(limitsOf),
  ];
  const limits = limitsOf(program);
  expect(limits.length).toBeGreaterThan(10);
  expect(new Set(limits)).toEqual(new Set([200]));
});

it('descriptions are wrapped only to the width of the terminal', () => {
  const allOf = (command: Command): Command[] => [command, ...command.commands.flatMap(allOf)];
  const serve = allOf(program).find((command) => command.name() === 'serve') as Command;
  expect(serve.description()).toContain('\n');
  expect(serve.createHelp().commandDescription(serve)).not.toContain('\n');
  for (const command of allOf(program)) {
    const help = command.createHelp();
    expect(help.commandDescription(command)).not.toContain('\n');
    for (const inner of command.commands) expect(help.subcommandDescription(inner)).not.toContain('\n');
  }
});
