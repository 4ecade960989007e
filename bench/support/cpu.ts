import { readdirSync, readFileSync } from 'node:fs';
import type { Child } from './child.ts';

/** In the measured process: reports its processor time so far, on request. */
export function answerCpuRequests(): void {
  process.on('message', (message: { cpu?: true }) => {
    if (!message.cpu) return;
    const { user, system } = process.cpuUsage();
    process.send?.({ cpu: user + system });
  });
}

/**
 * Processor time in microseconds that `child` spends per operation of `work`, which returns the number of operations.
 * Unlike a rate, it is meaningful on a machine that is shared.
 */
export async function cpuPerOperation(child: Child, work: () => Promise<number>): Promise<number> {
  const before = await cpuOf(child);
  const operations = await work();
  return ((await cpuOf(child)) - before) / Math.max(1, operations);
}

function cpuOf(child: Child): Promise<number> {
  child.send({ cpu: true });
  return child.receive<number>('cpu');
}

/** Linux reports hundredths of a second, independent of the kernel's tick. */
const TICK_US = 10_000;

/** Processor time in microseconds of a process and its children so far; 0 without `/proc`. */
export function cpuOfTree(pid: number): number {
  let sum = 0;
  for (const [one, { parent, ticks }] of processes()) if (one === pid || parent === pid) sum += ticks * TICK_US;
  return sum;
}

/**
 * Processor time in microseconds of a PostgreSQL server's own processes and its open sessions of one database. Uses the
 * kernel's count of nanoseconds where there is one, because a session may use less than a tick.
 */
export function cpuOfSessions(server: number, { user, database }: { user: string; database: string }): number {
  let sum = 0;
  for (const [pid, { parent, ticks }] of processes()) {
    if (pid !== server && parent !== server) continue;
    // A session's title is `postgres: USER DATABASE HOST(PORT) …`, that of another process `postgres: walwriter`.
    const [, titleUser, titleDatabase] = /^postgres: (\S+) (\S+) \S+\(\d+\)/.exec(textOf(`/proc/${pid}/cmdline`)) ?? [];
    if (titleUser === user && titleDatabase !== database) continue;
    const ns = Number(textOf(`/proc/${pid}/schedstat`).split(' ', 1)[0]);
    sum += ns > 0 ? ns / 1_000 : ticks * TICK_US;
  }
  return sum;
}

function processes(): Map<number, { parent: number; ticks: number }> {
  const all = new Map<number, { parent: number; ticks: number }>();
  for (const name of namesIn('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    // proc(5): after the name in parentheses come state, parent, …; fields 11 and 12 after it are user and kernel time.
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

/** Empty if the process has ended. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
