import { flushCompileCache } from 'node:module';
import { readConfig } from '../../src/config.ts';
import { type StartOptions, start } from '../../src/main.ts';
import { OwnedByAnother } from '../../src/store/contract.ts';
import type { LockTiming } from '../../src/store/lock/lock-timing.ts';
import { type CrashPoint, crashingStore } from './crashing-store.ts';

/*
 * The service in a process that a test may kill: started and stopped as by `twinkeep serve`, with an IPC channel
 * through which the test arms a crash point and sets the wall clock. Variables of the environment besides the service's:
 * `LOCK_TIMING`, `START_LIMITS` (JSON), `NODE_LINK` (`host:port` of a proxy in front of the node), `CLOCK_OFFSET_MS` (of the wall clock).
 */

/** Messages to this process. */
export type ToService = { fault: CrashPoint } | { clockOffsetMs: number };
/** Messages from it. */
export type FromService = { listening: string } | { active: true; mqttUrl: string } | { armed: true };

const send = (message: FromService): void => void process.send?.(message);
const logToStderr = (fields: object, message: string): void =>
  void process.stderr.write(`${message} ${errorIn(fields)}\n`);
const errorIn = (fields: object): string => {
  const { err, reason } = fields as { err?: Error; reason?: string };
  return err?.stack ?? reason ?? '';
};

const faults = crashingStore();
let clockOffsetMs = Number(process.env.CLOCK_OFFSET_MS ?? 0);
process.on('message', (message: ToService) => {
  if ('fault' in message) faults.arm(message.fault);
  else clockOffsetMs = message.clockOffsetMs;
  send({ armed: true });
});

try {
  const service = await start(readConfig(), {
    log: { debug() {}, info() {}, warn: logToStderr, error: logToStderr },
    wrapStore: faults.around,
    wallClock: () => Date.now() + clockOffsetMs,
    ...(process.env.NODE_LINK !== undefined && { link: process.env.NODE_LINK }),
    limits: {
      ...(JSON.parse(process.env.START_LIMITS ?? '{}') as StartOptions['limits']),
      lock: JSON.parse(process.env.LOCK_TIMING ?? '{}') as Partial<LockTiming>,
    },
    onFatal(reason) {
      process.stderr.write(`${reason}\n`);
      process.exit(1);
    },
  });
  const stop = (): void => void service.stop().then(() => process.exit(0));
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('disconnect', () => process.exit(0));
  send({ listening: service.url });
  await service.active;
  // A killed process does not write its compile cache.
  flushCompileCache();
  send({ active: true, mqttUrl: service.mqttUrl() ?? '' });
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  process.exit(error instanceof OwnedByAnother ? 2 : 1);
}
