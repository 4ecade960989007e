import { z } from 'zod';
import { iso } from '../../domain/iso-time.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { SHARD_COUNT } from '../../domain/shards.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ShardContents } from '../../store/contract/administration.ts';
import { type DrainResult, membershipStates, type NodesReport } from '../../store/contract/cluster.ts';
import { idOf, isoTime, notFound } from '../inputs.ts';
import { type Call, operation, type Services } from '../operation.ts';

// Operations of platform operators on the processes of the service.

const operatorOnly = { role: 'none', scope: null, platformOnly: true } as const;
const operatorChange = { ...operatorOnly, changes: true, inMaintenance: true } as const;

const nodeState = z.enum(membershipStates).meta({
  id: 'NodeState',
  description:
    '`joining`: starts; `active`: owns shards; `draining`: hands over its shards at the request of an operator, and ' +
    'goes on forwarding; `stopping`: hands them over and ends',
});
const load = z
  .object({
    live_actors: z.int().meta({ description: 'Actors in memory' }),
    device_sessions: z.int().meta({ description: 'Open device sessions' }),
    cpu_share: z.number().meta({ description: 'Processor time in relation to one core; 1 is one core' }),
    heap_bytes: z.number().meta({ description: 'JavaScript heap in use' }),
    rss_bytes: z.number().meta({ description: 'Memory of the process' }),
    event_loop_delay_ms: z.number().meta({ description: 'Delay of the event loop, 99th percentile' }),
  })
  .meta({ id: 'NodeLoad' });
const node = z
  .object({
    ...{ id: uuid, number: z.int().meta({ description: 'Higher for nodes that started later' }) },
    address: z.string().meta({ description: 'Host and port of its HTTP server' }),
    link: z.string().nullable().meta({ description: 'Host and port for other nodes; null while there is none' }),
    build: z.string().meta({ description: 'Version of the program' }),
    schema_level: z.int().meta({ description: 'Newest migration that its build knows' }),
    data_level: z.int().meta({ description: 'Newest stored form of actors that its build can read' }),
    ...{ state: nodeState, started_at: isoTime },
    shards: z.int().meta({ description: `Shards that it owns, of ${SHARD_COUNT}` }),
    tenants: z.int().meta({ description: 'Tenants in its shards' }),
    devices: z.int().meta({ description: 'Devices in its shards' }),
    lease_age_ms: z.int().nullable().meta({
      description: 'Milliseconds since its lease was renewed, as it last published; null if it is not known',
    }),
    load: load.nullable().meta({ description: 'Published every few seconds; null until then' }),
    shards_opened: z.int().nullable().meta({ description: 'Shards opened since its start' }),
    shards_handed_over: z.int().nullable().meta({ description: 'Shards handed over since its start' }),
  })
  .meta({ id: 'ServiceNode' });

const NODE = '0195d9a2-7f00-7000-8000-000000000009';

export const listNodes = operation({
  ...operatorOnly,
  name: 'listNodes',
  summary: 'List the live processes of the service, with their shards and load',
  input: z.strictObject({
    shards: z.boolean().optional().meta({ description: 'Also list the owner of each shard' }),
  }),
  output: z.object({
    nodes: z.array(node),
    shards_without_owner: z.int().meta({ description: 'Shards that no live node owns' }),
    shards_unreadable: z.int().meta({
      description: 'Those of them in which a build has written that is newer than the builds of all live nodes',
    }),
    shard_owners: z.array(uuid.nullable()).optional().meta({
      description:
        'With `shards`: the id of the owner of each shard, by the number of the shard; null without a live one',
    }),
  }),
  changes: false,
  example: {
    output: {
      nodes: [
        {
          ...{ id: NODE, number: 7, address: 'node-a:8080', link: '10.0.0.7:7400', build: '1.0.0', state: 'active' },
          ...{ schema_level: 23, data_level: 1 },
          ...{ started_at: '2026-03-01T12:00:00.000Z', shards: 128, tenants: 40, devices: 5_200, lease_age_ms: 800 },
          load: {
            ...{ live_actors: 6_100, device_sessions: 4_900, cpu_share: 0.31 },
            ...{ heap_bytes: 310_000_000, rss_bytes: 480_000_000, event_loop_delay_ms: 4 },
          },
          ...{ shards_opened: 131, shards_handed_over: 3 },
        },
      ],
      shards_without_owner: 0,
      shards_unreadable: 0,
    },
  },
  needs: ['nodes', 'store'],
  async run({ nodes, store }, { input }) {
    const [report, contents] = await Promise.all([nodes.report(), store.administration.contentsByShard()]);
    const live = new Set<Uuid | null>(report.nodes.map(({ id }) => id));
    const readable = Math.max(0, ...report.nodes.map(({ dataLevel }) => dataLevel));
    const owners = report.owners.map((owner) => (live.has(owner) ? owner : null));
    return done({
      body: {
        nodes: report.nodes.map((one) => nodeBody(one, owners, contents)),
        shards_without_owner: owners.filter((owner) => owner === null).length,
        shards_unreadable: owners.filter((owner, shard) => owner === null && (report.levels[shard] ?? 0) > readable)
          .length,
        ...(input.shards === true && { shard_owners: owners }),
      },
    });
  },
});

const drainInput = z.strictObject({ id: idOf('node') });

export const drainNode = operation({
  ...operatorChange,
  name: 'drainNode',
  summary: 'Drain a node: it hands over its shards and gets no others, but forwards requests until it is stopped',
  input: drainInput,
  output: z.object({ node_id: uuid, state: z.literal('draining') }),
  refuses: ['NOT_FOUND', 'CONFLICT', 'ILLEGAL_TRANSITION'],
  example: { output: { node_id: NODE, state: 'draining' } },
  auditSubject: ({ input }) => `node:${input.id}`,
  needs: ['nodes', 'log'],
  run: (services, call) => changeNode(services, call, 'drain', { node_id: call.input.id, state: 'draining' as const }),
});

export const resumeNode = operation({
  ...operatorChange,
  name: 'resumeNode',
  summary: 'Resume a node that was drained: it gets its part of the shards again',
  input: drainInput,
  output: z.object({ node_id: uuid, state: z.literal('active') }),
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  example: { output: { node_id: NODE, state: 'active' } },
  auditSubject: ({ input }) => `node:${input.id}`,
  needs: ['nodes', 'log'],
  run: (services, call) => changeNode(services, call, 'resume', { node_id: call.input.id, state: 'active' as const }),
});

function nodeBody(
  one: NodesReport['nodes'][number],
  owners: NodesReport['owners'],
  contents: readonly ShardContents[],
) {
  const { id, number, address, link, build, schemaLevel, dataLevel, state, startedAt, figures, leaseAgeMs } = one;
  const owned = contents.filter(({ shard }) => owners[shard] === id);
  return {
    ...{ id, number, address, link, build, schema_level: schemaLevel, data_level: dataLevel },
    ...{ state, started_at: iso(Math.round(startedAt)) },
    shards: owners.filter((owner) => owner === id).length,
    tenants: owned.reduce((sum, { tenants }) => sum + tenants, 0),
    devices: owned.reduce((sum, { devices }) => sum + devices, 0),
    lease_age_ms: leaseAgeMs === null ? null : Math.max(0, Math.round(leaseAgeMs)),
    load: figures === null ? null : loadBody(figures.load),
    shards_opened: figures?.opened ?? null,
    shards_handed_over: figures?.handedOver ?? null,
  };
}

const loadBody = (one: NonNullable<NodesReport['nodes'][number]['figures']>['load']) => ({
  live_actors: one.liveActors,
  device_sessions: one.deviceSessions,
  cpu_share: one.cpuShare,
  heap_bytes: one.heapBytes,
  rss_bytes: one.rssBytes,
  event_loop_delay_ms: one.eventLoopDelayMs,
});

async function changeNode<Body>(
  { nodes, log }: Pick<Services, 'nodes' | 'log'>,
  { input, caller }: Call<{ id: Uuid }>,
  change: 'drain' | 'resume',
  body: Body,
): Promise<Outcome<{ body: Body }>> {
  const result = await nodes[change](input.id);
  if (result !== 'done') return refusalOf(result);
  log.warn(
    { node_id: input.id, change, user_id: caller.principal.id, request_id: caller.requestId },
    'node state changed',
  );
  return done({ body });
}

function refusalOf(result: Exclude<DrainResult, 'done'>) {
  switch (result) {
    case 'not found':
      return notFound('node');
    case 'last active':
      return refuse('CONFLICT', 'No other node is active: start or resume another node before you drain this one.');
    case 'wrong state':
      return refuse('ILLEGAL_TRANSITION', 'The node is joining or stopping.');
  }
}
