import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';

type Colours = ReturnType<typeof pc.createColors>;

/** Standard streams of a command. */
export interface Io {
  /** Writes one line to stdout: the result of the command. */
  out(line: string): void;
  /** Writes one line to stderr: hints, progress, errors. */
  err(line: string): void;
  /** Colours for stdout and stderr; they do nothing if the stream is not a terminal. */
  outColors: Colours;
  errColors: Colours;
  /** For prompts and piped input. */
  stdin: Readable & { isTTY?: boolean };
  /** For progress bars, prompts and live status lines. */
  stdout: Writable & { isTTY?: boolean; columns?: number };
  stderr: Writable & { isTTY?: boolean; columns?: number };
}

export function processIo(): Io {
  const { stdin, stdout, stderr } = process;
  return {
    out: (line) => void stdout.write(`${line}\n`),
    err: (line) => void stderr.write(`${line}\n`),
    outColors: pc.createColors(stdout.isTTY === true && pc.isColorSupported),
    errColors: pc.createColors(stderr.isTTY === true && pc.isColorSupported),
    stdin,
    stdout,
    stderr,
  };
}
