import { CommanderError, InvalidArgumentError } from 'commander';
import { ConfigError } from '../config/setting-readers.ts';
import { exitCodes, RefusedError, UnreachableError, UsageError } from './errors.ts';
import { installHint } from './install-hint.ts';
import type { Io } from './io.ts';
import { printProblem } from './print.ts';
import { makeProgram } from './program.ts';

/** HTTP status and close code of a WebSocket. */
const UNAUTHENTICATED: readonly number[] = [401, 4401];
const SIGN_IN_HINT =
  'sign in with: twinkeep login. A token of `twinkeep token` needs the DATA_DIR or TOKEN_SIGNING_KEY of this service.';

/** Commander's error for an unknown option with one hyphen. Public keys and ids of keys can begin with a hyphen too. */
const SHORT_OPTION = /unknown option '-[^-]/;
const HYPHEN_HINT = 'To pass it as an argument, put -- before it.';

/** Runs one command, prints its error if it fails, and resolves with the exit code. `args` exclude the program name. */
export async function run(io: Io, args: readonly string[]): Promise<number> {
  try {
    await makeProgram(io).parseAsync(args, { from: 'user' });
    return 0;
  } catch (error) {
    return reportError(io, error);
  }
}

/** Prints the error and returns its exit code. */
function reportError(io: Io, error: unknown): number {
  const { red, dim } = io.errColors;
  // Commander has printed its errors, but not an invalid argument that an action found.
  if (error instanceof CommanderError && !(error instanceof InvalidArgumentError)) {
    if (error.code === 'commander.unknownOption' && SHORT_OPTION.test(error.message)) io.err(dim(`  ${HYPHEN_HINT}`));
    return error.exitCode === 0 ? 0 : exitCodes.usage;
  }
  if (error instanceof RefusedError) {
    printProblem(io, error.problem);
    if (UNAUTHENTICATED.includes(error.problem.status)) io.err(dim(`  ${SIGN_IN_HINT}`));
    return exitCodes.refused;
  }
  const text = installHint(error) ?? (error instanceof Error ? error.message : String(error));
  io.err(`${red('error:')} ${text}`);
  if (error instanceof UsageError) for (const line of error.details) io.err(`  ${line}`);
  if (error instanceof ConfigError || error instanceof UsageError || error instanceof InvalidArgumentError)
    return exitCodes.usage;
  // The embedded store has one owner (contract §1). The class is in a layer that the CLI must not import.
  if (error instanceof Error && error.name === 'OwnedByAnother') return exitCodes.usage;
  return error instanceof UnreachableError ? exitCodes.unreachable : exitCodes.refused;
}
