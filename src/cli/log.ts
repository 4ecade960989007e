import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import pino from 'pino';
import type { Config } from '../config.ts';
import type { Log } from '../domain/log.ts';
import { escapeForTerminal, escapeJson } from './terminal-text.ts';

const require = createRequire(import.meta.url);

/**
 * Creates the log: JSON lines, or readable text. Fields that could hold credentials are redacted. Characters that a
 * terminal acts on are escaped in readable text, and in JSON lines for a terminal.
 */
export function makePinoLog({ level, format }: Config['log'], to: Writable & { isTTY?: boolean }): Log {
  const secretFields = ['token', 'password', 'secret', 'authorization', 'device_secret', 'new_secret', 'signature'];
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: '…' },
  };
  if (format === 'json') return pino(options, to.isTTY === true ? mapLines(to, escapeJson) : to);
  const colorize = to.isTTY === true;
  // Loaded here: a service that logs JSON lines does not need it.
  const pretty = require('pino-pretty') as typeof import('pino-pretty');
  const readable = pretty({ destination: to, colorize, sync: true, translateTime: 'SYS:HH:MM:ss.l' });
  // The texts of the JSON line are shown, so the escapes are part of the texts. JSON has no other use of a raw character.
  return pino(
    options,
    mapLines(readable, (line) => escapeForTerminal(line, '\\\\')),
  );
}

/** A destination of JSON lines that passes each on in another form. */
const mapLines = (to: Writable, convert: (line: string) => string): pino.DestinationStream => ({
  write: (line) => void to.write(`${convert(line.slice(0, -1))}\n`),
});
