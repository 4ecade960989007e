import type { Log } from '../../src/domain/log.ts';
import type { AdvisoryLockParts } from '../../src/store/lock/advisory-lock.ts';

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Of a lock whose log nobody reads. */
export const lockParts: AdvisoryLockParts = { log: silentLog, node: { address: 'test:1', build: 'test' } };

/** The server keeps what was not released for longer than a test lasts, in place of 15 s. */
export const longLivedLockParts: AdvisoryLockParts = {
  ...lockParts,
  timing: { idleSession: 300_000, unreachable: 300_000 },
};

export interface LogLine {
  level: keyof Log;
  fields: Record<string, unknown>;
  message: string;
}

/** A log that keeps its lines. */
export function recordingLog(): { log: Log; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const keep = (level: keyof Log) => (fields: object, message: string) => {
    lines.push({ level, fields: fields as Record<string, unknown>, message });
  };
  return { log: { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }, lines };
}
