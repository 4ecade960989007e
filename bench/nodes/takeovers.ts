import { checkLimit, formatLatencies, percentile } from '../support/figures.ts';
import type { RunningService } from '../support/service.ts';
import type { TakeoverTimes } from './load.ts';
import type { NodeGroup } from './node-group.ts';

const AT_MOST_MS = 1_000;
/** Tenants of the killed node that are measured at once. */
const TENANTS = 8;

/** Kills each node in turn, and measures when commands for its tenants pass through another node again. */
export async function measureTakeovers(group: NodeGroup, kills: number, short: boolean): Promise<void> {
  const times: TakeoverTimes[] = [];
  for (let n = 0; n < kills; n += 1) {
    const [killed, other] = group.nodes as [RunningService, RunningService];
    const tenants = (await group.tenantsByNode()).get(killed) ?? [];
    // Others each time, as far as there are.
    const from = (n * TENANTS) % Math.max(1, tenants.length - TENANTS);
    await group.connectFirst(tenants.slice(from, from + TENANTS), other);
    const killedAt = Date.now();
    void group.kill(killed);
    group.load.send({ takeover: { killedAt } });
    times.push(...(await group.load.receive<TakeoverTimes[]>('times')));
    await group.startNode();
    await group.whenPlaced();
  }
  const accepted = times.map((one) => one.accepted);
  const done = times.map((one) => one.done);
  console.log(`${kills} kills of the owner, ${TENANTS} of its tenants each, until the first command of a tenant`);
  console.log(`  is accepted: ${formatLatencies(accepted)}`);
  console.log(`  has been carried out: ${formatLatencies(done)}`);
  checkLimit('  p99, accepted', percentile(accepted, 99), { atMost: AT_MOST_MS, unit: 'ms', short });
  checkLimit('  p99, carried out', percentile(done, 99), { atMost: AT_MOST_MS, unit: 'ms', short });
}
