import type { Log } from '../../src/domain/log.ts';
import type { AdvisoryLockParts } from '../../src/store/lock/advisory-lock.ts';

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Parts of a lock with a silent log. */
export const lockParts: AdvisoryLockParts = { log: silentLog, node: { address: 'test:1', build: 'test' } };

/** The server keeps an unreleased lock for longer than a test lasts, instead of 15 s. */
export const longLivedLockParts: AdvisoryLockParts = {
  ...lockParts,
  timing: { idleSession: 300_000, unreachable: 300_000 },
};

export interface LogLine {
  level: keyof Log;
  fields: Record<string, unknown>;
  message: string;
}

/** A log that records its lines. */
export function recordingLog(): { log: Log; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const record = (level: keyof Log) => (fields: object, message: string) => {
    lines.push({ level, fields: fields as Record<string, unknown>, message });
  };
  return { log: { debug: record('debug'), info: record('info'), warn: record('warn'), error: record('error') }, lines };
}
