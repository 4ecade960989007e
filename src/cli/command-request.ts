import { text } from 'node:stream/consumers';
import { type Command, InvalidArgumentError } from 'commander';
import type { JsonObject } from '../domain/values.ts';
import { parseAssignments, parseDurationS, parseJsonObject } from './argument-parsers.ts';
import { UsageError } from './errors.ts';
import type { Io } from './io.ts';

/** Options of a verb that sends a command; `addCommandOptions` defines them. */
export interface CommandRequestOptions {
  /** `-`: on stdin. */
  params?: JsonObject | '-';
  dryRun?: boolean;
  /** Seconds. */
  ttl?: number;
  timeout?: number;
}

export const addCommandOptions = (command: Command): Command =>
  command
    .option('--params <json>', 'parameters as a JSON object; - reads it from stdin, as for a PIN', (given) =>
      given === '-' ? '-' : parseJsonObject(given),
    )
    .option('--dry-run', 'only print the changes; the command can be confirmed later')
    .option('--ttl <time>', 'how long the command may wait for the device', parseDurationS)
    .option('--timeout <time>', 'how long the device may take to finish', parseDurationS);

/** The members of a command that have the same names in all requests. Throws `UsageError`. */
export async function commandRequestOf(
  io: Io,
  action: string,
  assignments: readonly string[],
  { params, dryRun, ttl, timeout }: CommandRequestOptions,
): Promise<{ action: string; params: JsonObject }> {
  if (params !== undefined && assignments.length > 0) throw new UsageError('give name=value or --params, not both');
  return {
    action,
    params: await paramsOf(io, params, assignments),
    ...(dryRun && { dry_run: true }),
    ...(ttl !== undefined && { ttl_s: ttl }),
    ...(timeout !== undefined && { timeout_s: timeout }),
  };
}

async function paramsOf(
  io: Io,
  given: CommandRequestOptions['params'],
  assignments: readonly string[],
): Promise<JsonObject> {
  if (given !== '-') return given ?? parseAssignments(assignments);
  try {
    return parseJsonObject(await text(io.stdin));
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw new UsageError('stdin must have a JSON object of parameters');
    throw error;
  }
}
