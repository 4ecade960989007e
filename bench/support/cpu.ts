import { readdirSync, readFileSync } from 'node:fs';
import type { Child } from './child.ts';

/** In the measured process: tells the processor time it used so far, when asked. */
export function answerCpuRequests(): void {
  process.on('message', (message: { cpu?: true }) => {
    if (!message.cpu) return;
    const { user, system } = process.cpuUsage();
    process.send?.({ cpu: user + system });
  });
}

/**
 * Processor time in microseconds that `child` spends on one piece of `work`, which answers how many pieces it did. Unlike a rate
 * it says something on a machine that others use too.
 */
export async function cpuPerOperation(child: Child, work: () => Promise<number>): Promise<number> {
  const before = await cpuOf(child);
  const pieces = await work();
  return ((await cpuOf(child)) - before) / Math.max(1, pieces);
}

function cpuOf(child: Child): Promise<number> {
  child.send({ cpu: true });
  return child.receive<number>('cpu');
}

/** Linux counts in hundredths of a second whatever the clock ticks in. */
const TICK_US = 10_000;

/** Processor time in microseconds that a process and its children have used so far; 0 where there is no `/proc`. */
export function cpuOfTree(pid: number): number {
  let sum = 0;
  for (const [one, { parent, ticks }] of processes()) if (one === pid || parent === pid) sum += ticks * TICK_US;
  return sum;
}

function processes(): Map<number, { parent: number; ticks: number }> {
  const all = new Map<number, { parent: number; ticks: number }>();
  for (const name of namesIn('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    // proc(5): behind the name in brackets state, parent, …; 11 and 12 after it are the time in user and in kernel mode.
    const text = textOf(`/proc/${name}/stat`);
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    if (fields.length > 12)
      all.set(Number(name), { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) });
  }
  return all;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Empty where the process has gone in the meantime. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
