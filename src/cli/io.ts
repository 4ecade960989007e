import type { Readable, Writable } from 'node:stream';
import pc from 'picocolors';
import { hasUtf8Locale } from '../config.ts';
import { type Colors, makeColors, renderLine } from './terminal-text.ts';

interface Streams {
  /** For prompts and piped input. */
  stdin: Readable & { isTTY?: boolean };
  /** For progress bars, prompts and live status lines. */
  stdout: Writable & { isTTY?: boolean; columns?: number };
  stderr: Writable & { isTTY?: boolean; columns?: number };
}

export interface Display {
  /** Tables may be wider than the terminal. */
  wide: boolean;
  /** Times are in UTC instead of the local time zone. */
  utc: boolean;
}

/**
 * Standard streams of a command. Lines may contain any text of a service or a device: control and formatting characters
 * are escaped, in a file too, since it may be shown on a terminal later.
 */
export interface Io extends Streams {
  /** Writes one line to stdout: the result of the command. */
  out(line: string): void;
  /** Writes one line to stderr: hints, progress, errors. */
  err(line: string): void;
  /** Writes text of several lines, each with its line feed, such as help and errors with arguments of the caller. */
  writeOut(text: string): void;
  writeErr(text: string): void;
  /** How tables and times are shown on a terminal: from the options of the command. */
  display: Display;
  /** The terminal shows characters beyond ASCII. */
  utf8: boolean;
  /** Colours for lines on stdout and stderr; they do nothing if the stream is not a terminal. */
  outColors: Colors;
  errColors: Colors;
}

export const makeIo = ({ stdin, stdout, stderr }: Streams, utf8 = true): Io => ({
  out: (line) => void stdout.write(`${renderLine(line)}\n`),
  err: (line) => void stderr.write(`${renderLine(line)}\n`),
  writeOut: (text) => void stdout.write(renderLines(text)),
  writeErr: (text) => void stderr.write(renderLines(text)),
  display: { wide: false, utc: false },
  utf8,
  outColors: makeColors(stdout.isTTY === true && pc.isColorSupported),
  errColors: makeColors(stderr.isTTY === true && pc.isColorSupported),
  stdin,
  stdout,
  stderr,
});

const renderLines = (text: string): string => text.split('\n').map(renderLine).join('\n');

export const processIo = (): Io => makeIo(process, hasUtf8Locale());
