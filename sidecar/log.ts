import type { Writable } from 'node:stream';

export type Level = 'debug' | 'info' | 'warn' | 'error';
export type Log = Record<Level, (fields: object, message: string) => void>;

/** Logs one JSON object per line: `{level, time, msg, …}`. Fields never contain keys, names, states or memories. */
export function makeLog(output: Writable, minLevel: Level = 'info'): Log {
  const order: readonly Level[] = ['debug', 'info', 'warn', 'error'];
  const line = (level: Level) => (fields: object, msg: string) => {
    if (order.indexOf(level) < order.indexOf(minLevel)) return;
    output.write(`${JSON.stringify({ level, time: new Date().toISOString(), ...fields, msg })}\n`);
  };
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') };
}
