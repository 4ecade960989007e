// What do a message and a command cost on several nodes of one database compared with one process, how fast do shards
// move and how fast are they taken over, and how much memory does a node take?
import { freemem } from 'node:os';
import { startChild } from '../support/child.ts';
import { checkLimit, formatThousands } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { type Cluster, startCluster } from '../support/postgres.ts';
import { V8_FLAGS } from '../support/service.ts';
import { type CostSize, measureCosts } from './costs.ts';
import type { TwinsResult } from './live-twins.ts';
import { measureMoves } from './moves.ts';
import { NodeGroup } from './node-group.ts';
import { measureNodeMemory } from './node-memory.ts';
import { measureTakeovers } from './takeovers.ts';

const options = readOptions(5);
const { short, tries } = options;

const costSize: CostSize = short
  ? {
      tenants: 4,
      devices: 5,
      perSecond: { state: 200, command: 20 },
      milliseconds: 400,
      mostNodes: 2,
      warmUps: 0,
      tries,
    }
  : {
      tenants: 8,
      devices: 25,
      perSecond: { state: 2_000, command: 100 },
      milliseconds: 4_000,
      mostNodes: 4,
      warmUps: 3,
      tries,
    };
const stored = short
  ? { tenants: 64, devices: 2, kills: 1, drains: 1 }
  : { tenants: 1_000, devices: 100, kills: 20, drains: 10 };

const TWINS = 1_000_000;
const TWINS_AT_MOST_GB = 8;

printMachine();
const cluster = await startCluster(options);
console.log(await cluster.describe());
await measureCosts(cluster, costSize, options);
await measureShards(cluster);
await cluster.stop();
if (!short) await measureTwins();

/** With 100,000 stored devices: the memory of two idle nodes, moves between them, and kills of one of three. */
async function measureShards(on: Cluster): Promise<void> {
  const began = performance.now();
  const { tenants, devices, kills, drains } = stored;
  const group = await NodeGroup.start(on, { name: 'shards', nodes: 2, shared: true, tenants, devices });
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  console.log(
    `${formatThousands(tenants * devices)} devices of ${tenants} tenants stored, and two nodes started, in ${seconds} s`,
  );
  await measureNodeMemory(group, short);
  await measureMoves(group, drains, short);
  await group.startNode();
  await group.whenPlaced();
  await measureTakeovers(group, kills, short);
  await group.stop();
}

async function measureTwins(): Promise<void> {
  if (freemem() < (TWINS_AT_MOST_GB + 1) * 1e9) {
    console.log(
      `${formatThousands(TWINS)} live twins: not measured, because ${(freemem() / 1e9).toFixed(0)} GB are free`,
    );
    process.exitCode = 1;
    return;
  }
  const heap = `--max-old-space-size=6000`;
  const child = startChild(new URL('./live-twins.ts', import.meta.url), { node: [...V8_FLAGS, heap] });
  child.send({ hold: TWINS });
  const { live, heapBytes, rssBytes, maxRssBytes } = await child.receive<TwinsResult>('twins');
  await child.end();
  const gb = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;
  console.log(
    `${formatThousands(live)} live twins, connected, ${heap}: heap ${gb(heapBytes)}, resident ${gb(rssBytes)}`,
  );
  checkLimit('  largest resident memory', maxRssBytes / 1e9, { atMost: TWINS_AT_MOST_GB, unit: 'GB', short });
}
