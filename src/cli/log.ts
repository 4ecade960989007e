import type { Writable } from 'node:stream';
import pino from 'pino';
import pretty from 'pino-pretty';
import type { Config } from '../config.ts';
import type { Log } from '../domain/log.ts';

/** Creates the log: JSON lines, or readable text. Fields that could hold credentials are redacted. */
export function makePinoLog({ level, format }: Config['log'], to: Writable & { isTTY?: boolean }): Log {
  const secretFields = ['token', 'password', 'secret', 'authorization', 'device_secret', 'new_secret', 'signature'];
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: '…' },
  };
  return format === 'json'
    ? pino(options, to)
    : pino(
        options,
        pretty({ destination: to, colorize: to.isTTY === true, sync: true, translateTime: 'SYS:HH:MM:ss.l' }),
      );
}
