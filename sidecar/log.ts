import type { Writable } from 'node:stream';

export type Level = 'debug' | 'info' | 'warn' | 'error';
export type Log = Record<Level, (fields: object, message: string) => void>;

/** A JSON object a line: `{level, time, msg, …}`. Fields never hold a key, a name, a state or a memory. */
export function makeLog(to: Writable, least: Level = 'info'): Log {
  const order: readonly Level[] = ['debug', 'info', 'warn', 'error'];
  const line = (level: Level) => (fields: object, msg: string) => {
    if (order.indexOf(level) < order.indexOf(least)) return;
    to.write(`${JSON.stringify({ level, time: new Date().toISOString(), ...fields, msg })}\n`);
  };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}
