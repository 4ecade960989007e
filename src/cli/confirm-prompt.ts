import { createInterface } from 'node:readline/promises';
import { UsageError } from './errors.ts';
import type { Io } from './io.ts';

/** Prompts for `y` or `yes` on the terminal. Enter, other input, Ctrl-C and the end of the input mean no. */
export async function confirmPrompt(io: Io, question: string): Promise<boolean> {
  if (io.stdin.isTTY !== true) throw new UsageError('cannot prompt for confirmation without a terminal: give --yes');
  const lines = createInterface({ input: io.stdin, output: io.stderr });
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
  lines.once('SIGINT', () => lines.close());
  const answer = await Promise.race([lines.question(`${question} [y/N] `), closed]);
  lines.close();
  return /^\s*y(es)?\s*$/i.test(answer);
}
