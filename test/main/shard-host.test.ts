import { beforeEach, describe, expect, it } from 'vitest';
import { makeShardHost, type ShardHostParts } from '../../src/main/shard-host.ts';
import type { ActiveContext } from '../../src/operations/cognition/contract.ts';
import { silentLog } from '../support/lock-parts.ts';

const INSIDE = '0195d9a2-7f00-7000-8000-000000000007';
const OUTSIDE = '0195d9a2-7f00-7000-8000-000000000008';
const shards = new Set([7]);
const contexts = [{ id: 'context' }] as unknown as ActiveContext[];

/** The steps of a host, in order; those of `failing` fail. */
let steps: string[];
let failing: Set<string>;
beforeEach(() => {
  steps = [];
  failing = new Set();
});

const step = async (name: string): Promise<boolean> => {
  steps.push(name);
  return !failing.has(name);
};
const endTenants = (name: string) => ({
  endTenants(matches: (tenantId: string) => boolean) {
    expect([matches(INSIDE), matches(OUTSIDE)]).toEqual([true, false]);
    steps.push(name);
  },
});

function makeHost(more: Partial<ShardHostParts> = {}) {
  return makeShardHost({
    runtime: {
      openShards: async () => void (await step('load')),
      startLeaving: () => step('operations end'),
      closeShards: () => step('unload'),
      keepShards: () => void steps.push('keep'),
    },
    store: { ping: async () => void (await step('ping')) },
    cognition: {
      contextsOf: async () => {
        if (!(await step('read contexts'))) throw new Error('away');
        return contexts;
      },
      interrupt: (given) => void steps.push(`interrupt ${given.length}`),
      openTenants: async () => {
        if (!(await step('open contexts'))) throw new Error('away');
      },
    },
    sockets: endTenants('end updates'),
    graphql: endTenants('end GraphQL'),
    mcp: endTenants('end MCP'),
    mqtt: () => ({ endTenants: () => step('end MQTT') }),
    log: silentLog,
    ...more,
  });
}

const ended = ['end updates', 'end GraphQL', 'end MCP'];

describe('a shard that is closed', () => {
  it('has its contexts read in memory, its operations answered, its connections ended and its actors unloaded', async () => {
    expect(await makeHost().close(shards)).toBe(true);
    expect(steps).toEqual([
      ...['read contexts', 'operations end', ...ended, 'end MQTT', 'unload', 'interrupt 1', 'ping'],
    ]);
  });

  it.each([
    ['operations that do not end', 'operations end', []],
    ['messages of devices that do not end', 'end MQTT', [...ended, 'end MQTT']],
    ['actors that stay busy', 'unload', [...ended, 'end MQTT', 'unload']],
  ])('stays, and its contexts are sent to the sidecar again, because of %s', async (_, fault, following) => {
    failing.add(fault);
    expect(await makeHost().close(shards)).toBe(false);
    expect(steps).toEqual(['read contexts', 'operations end', ...following, 'keep', 'open contexts']);
    steps = [];
    failing.clear();
    expect(await makeHost().close(shards)).toBe(true);
    expect(steps.filter((name) => name.startsWith('interrupt'))).toEqual(['interrupt 1']);
  });

  it('is closed without contexts if they cannot be read, and before MQTT is open', async () => {
    failing.add('read contexts');
    expect(await makeHost({ mqtt: () => null }).close(shards)).toBe(true);
    expect(steps).toEqual(['read contexts', 'operations end', ...ended, 'unload', 'interrupt 0', 'ping']);
  });

  it('is not handed over before the database has answered', async () => {
    const ping = () => Promise.reject(new Error('away'));
    await expect(makeHost({ store: { ping } }).close(shards)).rejects.toThrow('away');
  });
});

it('a shard is open when it is loaded, whether its contexts can be announced or not', async () => {
  for (const fault of ['none', 'open contexts']) {
    steps = [];
    failing = new Set([fault]);
    await makeHost().open([7]);
    expect(steps).toEqual(['load', 'open contexts']);
  }
});
