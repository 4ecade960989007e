import { checkLimit } from '../support/figures.ts';
import { memoryOf, type ProcessMemory } from '../support/process-memory.ts';
import type { NodeGroup } from './node-group.ts';

const AT_MOST_MB = 150;
/** V8 returns memory some time after an idle process has asked for it: within a minute, and later on a busy machine. */
const IDLE_MS = 120_000;

/** Judges the memory of each node after two minutes without load. */
export async function measureNodeMemory(group: NodeGroup, short: boolean): Promise<void> {
  const print = (what: string) => {
    const all = group.nodes.map(({ child }) => memoryOf(child.pid));
    const mean = (of: (memory: ProcessMemory) => number) => all.reduce((sum, one) => sum + of(one), 0) / all.length;
    const mb = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
    console.log(
      `memory of a node, ${what}: proportional ${mb(mean((one) => one.proportional))}, resident ${mb(mean((one) => one.resident))}, private ${mb(mean((one) => one.private))}`,
    );
    return Math.max(...all.map((one) => one.proportional)) / 1e6;
  };
  print('started');
  if (!short) await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const most = print(short ? 'not idle yet' : 'idle for two minutes');
  checkLimit(`  proportional, the largest of ${group.nodes.length} nodes`, most, {
    atMost: AT_MOST_MB,
    unit: 'MB',
    short,
  });
}
