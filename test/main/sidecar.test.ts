import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../src/config.ts';
import { unlimitedLease } from '../../src/domain/lease.ts';
import type { SidecarEdge } from '../../src/edges/grpc/edge.ts';
import { Metrics } from '../../src/edges/shared/metrics.ts';
import { makeSidecarRunner, type SidecarRunner } from '../../src/main/sidecar.ts';
import { eventLoopTurns, eventually } from '../support/clock.ts';

const folder = mkdtempSync(join(tmpdir(), 'twinkeep-sidecar-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const runners: SidecarRunner[] = [];
afterEach(async () => {
  for (const runner of runners.splice(0)) await runner.close();
});

/** A runner whose client of gRPC is recorded; `loads` has the outcome of each attempt to load it. */
function runner(mode: 'embedded' | 'external', loads: (Error | Promise<void>)[] = []) {
  const calls: string[] = [];
  const errors: object[] = [];
  const log = { debug() {}, info() {}, warn() {}, error: (fields: object) => void errors.push(fields) };
  const edge: SidecarEdge = {
    connected: () => true,
    sizes: () => ({ events: 1 }),
    notify: ({ type }) => void calls.push(type),
    retryNow: () => void calls.push('retryNow'),
    close: () => void calls.push('close'),
  };
  const child = { listens: false, onListening() {} };
  const listen = (): void => {
    child.listens = true;
    child.onListening();
  };
  const env = { SIDECAR: mode, SIDECAR_ADDRESS: '127.0.0.1:7', DATA_DIR: folder, LOG_LEVEL: 'silent' };
  const metrics = new Metrics();
  const made = makeSidecarRunner(readConfig(env, false), {
    ...{ clock: { now: () => Date.now() }, lease: unlimitedLease, log, metrics },
    limits: { backoff: { firstMs: 1, maxMs: 1 } },
    startChild({ listen, onListening }) {
      calls.push(`start ${listen}`);
      child.onListening = onListening;
      return {
        address: () => (child.listens ? '127.0.0.1:7' : null),
        token: () => (child.listens ? 'token' : null),
        stop: async () => void calls.push('stop'),
        abort: () => void calls.push('abort'),
      };
    },
    async loadEdge() {
      calls.push('load');
      const outcome = loads.shift();
      if (outcome instanceof Error) throw outcome;
      await outcome;
      return {
        openSidecarEdge({ address, token }) {
          calls.push(`open ${address()} ${token?.()}`);
          return edge;
        },
      };
    },
  });
  runners.push(made);
  return { made, calls, errors, metrics, listen, open: () => made.open({} as never, {} as never) };
}

const started = 'start 127.0.0.1:7';
const embedded = 'open 127.0.0.1:7 token';
const external = 'open 127.0.0.1:7 null';

describe('the sidecar of a service', () => {
  it('is started when the service has become ready, and its client is loaded when it listens', async () => {
    const { made, calls, listen, open } = runner('embedded');
    open();
    // The promises that report a ready service are settled before the next pass of the event loop.
    await Promise.resolve();
    expect(calls).toEqual([]);
    await eventLoopTurns();
    expect([made.sidecar.connected(), made.sizes(), calls]).toEqual([false, {}, [started]]);
    made.sidecar.notify({ type: 'opened', contextId: 'c' } as never);
    listen();
    await eventLoopTurns();
    expect([made.sidecar.connected(), made.sizes(), calls]).toEqual([true, { events: 1 }, [started, 'load', embedded]]);
    made.sidecar.notify({ type: 'opened', contextId: 'c' } as never);
    expect(calls.at(-1)).toBe('opened');
  });

  it('that listens again is dialled at once', async () => {
    const { calls, listen, open } = runner('embedded');
    open();
    await eventLoopTurns();
    listen();
    // Restarted while the client is loaded.
    listen();
    await eventLoopTurns();
    expect(calls).toEqual([started, 'load', embedded]);
    listen();
    expect(calls.at(-1)).toBe('retryNow');
  });

  it('that is external is dialled when the service has become ready', async () => {
    const { calls, open } = runner('external');
    open();
    await Promise.resolve();
    expect(calls).toEqual([]);
    await eventLoopTurns();
    expect(calls).toEqual(['load', external]);
  });

  it.each(['embedded', 'external'] as const)('that is %s is not started after the end of the service', async (mode) => {
    for (const end of ['close', 'abort'] as const) {
      const [before, after] = [runner(mode), runner(mode)];
      before.open();
      await before.made[end]();
      await after.made[end]();
      after.open();
      await eventLoopTurns();
      expect([before.calls, after.calls]).toEqual([[], []]);
    }
  });

  it.each([
    ['close', 'stop'],
    ['abort', 'abort'],
  ] as const)('that does not listen yet ends with a %s, and is not connected to', async (end, ended) => {
    const { made, calls, listen, open } = runner('embedded');
    open();
    await eventLoopTurns();
    await made[end]();
    listen();
    await eventLoopTurns();
    expect(calls).toEqual([started, ended]);
  });

  it('is not connected to if the service ends while the client is loaded', async () => {
    const loading = Promise.withResolvers<void>();
    const { made, calls, open } = runner('external', [loading.promise]);
    open();
    await eventLoopTurns();
    await made.close();
    loading.resolve();
    await eventLoopTurns();
    expect(calls).toEqual(['load']);
  });

  it('is connected to when its client could be loaded in a later attempt', async () => {
    const error = new Error('too many open files');
    const { made, calls, errors, open } = runner('external', [error, error]);
    open();
    await eventually(() => made.sidecar.connected());
    expect(calls).toEqual(['load', 'load', 'load', external]);
    expect(errors).toEqual([{ err: error }, { err: error }]);
  });

  it('is disconnected from at the end of the service', async () => {
    const { made, calls, listen, open } = runner('embedded');
    open();
    await eventLoopTurns();
    listen();
    await eventLoopTurns();
    await made.close();
    expect(calls.slice(-2)).toEqual(['close', 'stop']);
  });

  it('has its metrics from the start', async () => {
    const { metrics } = runner('embedded');
    expect(await metrics.render()).toContain('twinkeep_sidecar_connected 0');
  });
});
