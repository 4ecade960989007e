import { PassThrough } from 'node:stream';
import { type Argument, type Command, InvalidArgumentError, type Option } from 'commander';
import pc from 'picocolors';
import { describe, expect, it } from 'vitest';
import { makeProgram } from '../../src/cli/program.ts';
import { expectNoLibraryText } from '../support/error-texts.ts';

const [outColors, stdin, stdout] = [pc.createColors(false), new PassThrough(), new PassThrough()];
const program = makeProgram({ out() {}, err() {}, outColors, errColors: outColors, stdin, stdout, stderr: stdout });

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

describe('a wrong value', () => {
  it.each(parsersOf(program, 'twinkeep'))('for %s is refused in a text of the command line', (_, parse) => {
    for (const value of wrong) {
      try {
        parse(value, undefined);
      } catch (error) {
        expect(error).toBeInstanceOf(InvalidArgumentError);
        expectNoLibraryText((error as InvalidArgumentError).message);
      }
    }
  });
});
