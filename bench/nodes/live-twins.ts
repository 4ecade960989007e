import { freemem } from 'node:os';
import { Runtime } from '../../src/actors/runtime.ts';
import type { Uuid } from '../../src/domain/values.ts';
import type { ActorKind } from '../../src/machines/outputs.ts';
import { currentDefinition, definitionFor } from '../../src/machines/versions.ts';
import { generatedStore, idOf } from '../memory/generated-store.ts';
import { deviceState } from '../support/device-state.ts';

/*
 * A process that keeps many live devices: each reports its 20 keys and is connected. The runtime and the sessions are those
 * of a node; the store is generated, and there are no connections. Reports its memory.
 */

export interface TwinsResult {
  live: number;
  heapBytes: number;
  rssBytes: number;
  /** The largest resident memory so far. */
  maxRssBytes: number;
}

const BATCH = 2_000;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

async function holdTwins(count: number): Promise<TwinsResult> {
  const definitions = (kind: ActorKind, version?: number) =>
    version === undefined ? currentDefinition(kind) : definitionFor(kind, version);
  const clock = { now: () => Date.now() };
  const limits = { liveActors: 2 * count, idleMs: 24 * 3_600_000 };
  const runtime = new Runtime({ store: generatedStore(), definitions, clock, log: silent, limits });
  await runtime.start();
  for (let from = 0; from < count; from += BATCH) {
    await Promise.all(
      Array.from({ length: Math.min(BATCH, count - from) }, (_, n) => connectTwin(runtime, idOf(from + n), from + n)),
    );
    if (from % 100_000 === 0) await runtime.sessions.tick();
  }
  await runtime.sessions.tick();
  const { heapUsed, rss } = process.memoryUsage();
  return {
    live: runtime.actors.liveCount,
    heapBytes: heapUsed,
    rssBytes: rss,
    maxRssBytes: process.resourceUsage().maxRSS * 1024,
  };
}

async function connectTwin(runtime: Runtime, id: Uuid, index: number): Promise<void> {
  const sessionId = `${id}.${1_790_000_000_000}.AAAAAAAAAAAAAAAA`;
  const now = Date.now();
  runtime.sessions.open({ deviceId: id, tenantId: idOf(index % 1_000), sessionId, keyVersion: 1, subscribed: false });
  await runtime.sessions.markSubscribed(id, sessionId);
  await runtime.actors.send({ kind: 'device', id }, {
    type: 'state.reported',
    at: now,
    by: { kind: 'device', id },
    header: { sequenceNumber: 65, messageId: `${id}-65`, keyVersion: 1 },
    // As the service receives it: V8 stores parsed objects more compactly.
    state: JSON.parse(JSON.stringify(deviceState(1, id))),
    full: false,
    watches: [],
  } as never);
  runtime.sessions.recordActivity(id, { at: now });
}

process.on('message', ({ hold }: { hold?: number }) => {
  if (hold === undefined) return;
  holdTwins(hold).then(
    (twins) => process.send?.({ twins, freeBytes: freemem() }),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));
