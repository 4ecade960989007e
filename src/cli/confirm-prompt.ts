import { createInterface } from 'node:readline/promises';
import { UsageError } from './errors.ts';
import type { Io } from './io.ts';

/** Asks for a yes on the terminal: Enter, any other word, Ctrl-C and the end of the input are a no. */
export async function confirmPrompt(io: Io, question: string): Promise<boolean> {
  if (io.stdin.isTTY !== true) throw new UsageError('there is no terminal to ask on: give --yes');
  const lines = createInterface({ input: io.stdin, output: io.stderr });
  const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
  lines.once('SIGINT', () => lines.close());
  const answer = await Promise.race([lines.question(`${question} [y/N] `), closed]);
  lines.close();
  return /^\s*y(es)?\s*$/i.test(answer);
}
