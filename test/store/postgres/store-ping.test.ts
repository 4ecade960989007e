import { once } from 'node:events';
import { setImmediate as nextCheck } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { holdNextTimer } from '../../support/timers.ts';

/** A database that answers its only statement when a message has been read from its port. */
let wire: MessageChannel;
let database: { answeredStatements: number; read(): Promise<object[]> };
beforeEach(() => {
  wire = new MessageChannel();
  const answered = once(wire.port2, 'message').then(() => []);
  database = { answeredStatements: 0, read: () => answered };
});
afterEach(() => wire.port1.close());

function ping() {
  const timer = holdNextTimer();
  const pinged = createStore(database as unknown as Database).ping(200);
  return { pinged, expire: timer.expire };
}

it('a database that answers no statement in time is unavailable', async () => {
  const { pinged, expire } = ping();
  expire();
  await expect(pinged).rejects.toThrow(StoreUnavailable);
});

it('a database that answers other statements in time is available', async () => {
  const { pinged, expire } = ping();
  database.answeredStatements += 1;
  expire();
  await pinged;
});

it('a database whose answer has arrived is available, although the process did not read it in time', async () => {
  const { pinged, expire } = ping();
  // After this the event loop runs timers first, then reads sockets and ports.
  await nextCheck();
  wire.port1.postMessage('answer');
  expire();
  await pinged;
});
