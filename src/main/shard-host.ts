import type { Runtime } from '../actors/runtime.ts';
import type { Log } from '../domain/log.ts';
import { shardOf } from '../domain/shards.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import type { CognitiveLayer } from '../operations/cognition/cognition.ts';
import type { ShardHost } from '../services/shard-coordinator.ts';
import type { Store } from '../store/contract.ts';

/** How long operations in progress may take before their shard is handed over; uploads are then interrupted. */
const OPERATIONS_MS: Milliseconds = 250;
/** How long the actors of a shard may take to become idle before the shard is handed over. */
const UNLOAD_MS: Milliseconds = 500;
/** How long messages of its devices may take that were read. With a database that answers, these times are together shorter than a request waits. */
const MESSAGES_MS: Milliseconds = 500;
/** How long the database may take to answer before a shard is handed over. */
const PING_MS: Milliseconds = 2_000;

/** An edge whose connections belong to tenants. */
interface TenantConnections {
  endTenants(matches: (tenantId: Uuid) => boolean): void;
}

export interface ShardHostParts {
  runtime: Pick<Runtime, 'openShards' | 'startLeaving' | 'keepShards' | 'closeShards'>;
  store: Pick<Store, 'ping'>;
  cognition: Pick<CognitiveLayer, 'contextsOf' | 'interrupt' | 'openTenants'>;
  sockets: TenantConnections;
  graphql: TenantConnections;
  mcp: TenantConnections;
  /** Null until the MQTT edge is open. */
  mqtt(): Pick<MqttEdge, 'endTenants'> | null;
  log: Log;
}

/** Runs the shards of a node: loads and unloads their actors, and ends what depends on them. */
export function makeShardHost(parts: ShardHostParts): ShardHost {
  const { runtime, store, cognition, sockets, graphql, mcp, mqtt, log } = parts;

  async function endAll(shards: ReadonlySet<number>): Promise<boolean> {
    const matches = isIn(shards);
    // Operations are answered before the connections of their callers end.
    if (!(await runtime.startLeaving(shards, OPERATIONS_MS))) return false;
    for (const edge of [sockets, graphql, mcp]) edge.endTenants(matches);
    const isQuiet = (await mqtt()?.endTenants(matches, MESSAGES_MS)) !== false;
    return isQuiet && runtime.closeShards(shards, UNLOAD_MS);
  }

  /** Sends the contexts of shards to the sidecar, in the background. */
  function openContexts(shards: ReadonlySet<number>): void {
    void cognition.openTenants(isIn(shards)).catch((error: unknown) => {
      log.warn({ err: error }, 'sidecar contexts of shards not announced');
    });
  }

  return {
    async open(shards) {
      await runtime.openShards(shards);
      openContexts(new Set(shards));
    },
    async close(shards) {
      // Read while the actors are in memory.
      const contexts = await cognition.contextsOf(isIn(shards)).catch((error: unknown) => {
        log.warn({ err: error }, 'sidecar contexts of moved shards not read');
        return [];
      });
      if (!(await endAll(shards))) {
        runtime.keepShards(shards);
        // A suspension that ended in that time was left to the new owner.
        openContexts(shards);
        return false;
      }
      cognition.interrupt(contexts);
      // Before its next statement the pool ends the sessions whose connection was lost during a write.
      await store.ping(PING_MS);
      return true;
    },
  };
}

const isIn =
  (shards: ReadonlySet<number>) =>
  (tenantId: Uuid): boolean =>
    shards.has(shardOf(tenantId));
