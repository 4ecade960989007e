// How many bytes does a live device actor cost, and a passivated one, among 100,000?
import { Runtime } from '../../src/actors/runtime.ts';
import type { JsonObject, Uuid } from '../../src/domain/values.ts';
import type { ActorKind } from '../../src/machines/outputs.ts';
import { currentDefinition, definitionFor } from '../../src/machines/versions.ts';
import { ManifestCache } from '../../src/services/manifest-cache.ts';
import { deviceState } from '../support/device-state.ts';
import { checkLimit, formatThousands } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { generatedStore, hasOwnManifest, idOf } from './generated-store.ts';

/** Bytes per actor. */
const AT_MOST = { live: 8 * 1024, passivated: 0.2 * 1024 };
const BATCH = 2_000;
const silentLog = { debug() {}, info() {}, warn() {}, error() {} };

const { short } = readOptions();
const count = short ? 5_000 : 100_000;
printMachine();

let now = Date.now();
const clock = { now: () => now };
const store = generatedStore();
const definitions = (kind: ActorKind, version?: number) =>
  version === undefined ? currentDefinition(kind) : definitionFor(kind, version);
const runtime = new Runtime({ store, definitions, clock, log: silentLog });
let manifests = new ManifestCache(store.devices);

interface Reading {
  heap: number;
  buffers: number;
  rss: number;
}

// A last-resort collection, as when memory runs out: it also returns the pages that this run's garbage filled.
const collect = globalThis.gc as ((how: object) => void) | undefined;

/** Memory in use after a full collection. */
async function readMemoryAfterGc(): Promise<Reading> {
  for (let n = 0; n < 4; n += 1) {
    collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed, buffers: external, rss };
}

const perActor = (reading: Reading, start: Reading): number =>
  (reading.heap + reading.buffers - start.heap - start.buffers) / count;

function print(what: string, reading: Reading, start: Reading): void {
  const heap = (reading.heap - start.heap) / count;
  const buffers = (reading.buffers - start.buffers) / count;
  const rss = (reading.rss - start.rss) / count;
  console.log(
    `  ${what.padEnd(52)} ${formatThousands(heap + buffers).padStart(7)} B (heap ${formatThousands(heap)}, buffers ${formatThousands(buffers)}); RSS ${formatThousands(rss)}`,
  );
}

/** Runs `work` for every device, in batches. Ids are computed for each call, so that this loop keeps none. */
async function forEach(work: (id: Uuid, index: number) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < count; from += BATCH) {
    const size = Math.min(BATCH, count - from);
    await Promise.all(Array.from({ length: size }, (_, n) => work(idOf(from + n), from + n)));
  }
}

if (collect === undefined) throw new Error('needs --expose-gc: start it with `npm run bench -- memory`');
await runtime.start();
await runtime.actors.read({ kind: 'device', id: idOf(0) }); // One-time allocations must not count.
await manifests.load([{ id: idOf(0), manifestVersion: 2 }]);
const start = await readMemoryAfterGc();

await forEach((id) => runtime.actors.read({ kind: 'device', id }));
print('loaded', await readMemoryAfterGc(), start);

/** V8 stores parsed objects more compactly than objects built with computed keys. */
const asParsed = (state: JsonObject): JsonObject => JSON.parse(JSON.stringify(state)) as JsonObject;

const sequence = 65;
const report = (counter: number) =>
  forEach((id) =>
    runtime.actors.send({ kind: 'device', id }, {
      type: 'state.reported',
      at: now,
      by: { kind: 'device', id },
      header: { sequenceNumber: sequence + counter, messageId: `${id}-${counter}`, keyVersion: 1 },
      state: asParsed(deviceState(counter, id)),
      full: false,
      watches: [],
    } as never),
  );
await report(0);
await report(1);
print('after two reports each', await readMemoryAfterGc(), start);

const sessionOf = (id: Uuid) => `${id}.${1_790_000_000_000}.AAAAAAAAAAAAAAAA`;
await forEach(async (id, index) => {
  const tenantId = idOf(index % 100);
  runtime.sessions.open({ deviceId: id, tenantId, sessionId: sessionOf(id), keyVersion: 1, subscribed: false });
  await runtime.sessions.markSubscribed(id, sessionOf(id));
  runtime.sessions.recordActivity(id, { at: now });
});
print('with their sessions, not flushed', await readMemoryAfterGc(), start);
await runtime.sessions.tick();
print('with their sessions', await readMemoryAfterGc(), start);

await forEach((id, index) => manifests.load([{ id, manifestVersion: hasOwnManifest(index) ? 2 : 1 }]));
const live = await readMemoryAfterGc();
print('with the cache of manifests, which has a bound', live, start);

await forEach(async (id) => runtime.sessions.close(id, sessionOf(id)));
await runtime.actors.groupCommit.whenDrained();
await runtime.sessions.tick();
now += 11 * 60_000;
const passivated = runtime.actors.passivate();
print('passivated, the cache of manifests still there', await readMemoryAfterGc(), start);
manifests = new ManifestCache(store.devices);
const passive = await readMemoryAfterGc();
print('passivated', passive, start);

if (passivated < count) throw new Error(`only ${passivated} of ${count} actors were passivated`);
checkLimit('a live actor, all maps', perActor(live, start), { atMost: AT_MOST.live, unit: 'B', short });
checkLimit('a passivated actor', perActor(passive, start), { atMost: AT_MOST.passivated, unit: 'B', short });
await runtime.stop();
