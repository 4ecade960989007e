import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';

type Colours = ReturnType<typeof pc.createColors>;

/** Where a command's own output goes, and where everything else it has to say. */
export interface Io {
  /** One line on stdout: the command's own output. */
  out(line: string): void;
  /** One line on stderr: hints, progress, problems. */
  err(line: string): void;
  /** Colours of stdout and of stderr: none where that is no terminal. */
  outColors: Colours;
  errColors: Colours;
  /** Where somebody can be asked. */
  stdin: Readable & { isTTY?: boolean };
  /** For what draws by itself. */
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
