import type { Child } from './child.ts';

/** In the measured process: tells the processor time it used so far, when asked. */
export function answerCpu(): void {
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
export async function cpuEach(child: Child, work: () => Promise<number>): Promise<number> {
  const before = await cpuOf(child);
  const pieces = await work();
  return ((await cpuOf(child)) - before) / Math.max(1, pieces);
}

function cpuOf(child: Child): Promise<number> {
  child.send({ cpu: true });
  return child.receive<number>('cpu');
}
