import { describe, expect, it } from 'vitest';
import { longLived, sizeNames, sourceFiles } from './support/collections.ts';

/** Collections without a gauge, with the reason. */
const exceptions: Readonly<Record<string, string>> = {
  'actors/commit/unit-of-work.ts delivered': 'per commit',
  'actors/commit/unit-of-work.ts journal': 'per commit',
  'actors/commit/unit-of-work.ts rows': 'per commit',
  'actors/commit/unit-of-work.ts samples': 'per commit',
  'actors/commit/unit-of-work.ts timers': 'per commit',
  'actors/live-actor.ts mailbox': 'per actor; twinkeep_events_waiting counts all of them',
  'actors/live-actor.ts recentFailures': 'per actor, at most the errors of one minute before its quarantine',
  'actors/admission.ts deferred': 'per pass of the event loop; twinkeep_events_waiting counts them',
  'actors/outbox.ts resolvers': 'fixed size: one entry for each type of output',
  'actors/owned-shards.ts accepted': 'fixed size: at most one entry for each shard',
  'actors/owned-shards.ts leaving': 'fixed size: at most one entry for each shard',
  'actors/owned-shards.ts unloading': 'fixed size: at most one entry for each shard',
  'actors/presence.ts uncheckedShards': 'fixed size: at most one entry for each shard',
  'actors/runtime.ts openedAt': 'fixed size: at most one entry for each shard',
  'actors/shard-operations.ts interruptible': 'reported as uploads',
  'actors/shard-operations.ts running': 'fixed size: one entry for each shard',
  'actors/registry.ts byKind': 'twinkeep_actors_live counts them',
  'actors/commit/group-commit.ts idleWaiters': 'fixed size: used once, when the process stops',
  'domain/history/bucket.ts closed': 'per request',
  'domain/history/report-collector.ts counts': 'per compaction of a device',
  'domain/history/report-collector.ts series': 'per compaction of a device',
  'domain/history/rules.ts NOTHING_KEPT': 'fixed size: empty',
  'domain/history/rules.ts changed': 'per report, at most one entry for each rule of a manifest',
  'domain/schema-widening.ts limits': 'per call, at most 10',
  'domain/schema-widening.ts newKinds': 'per call, at most 10',
  'domain/semaphore.ts waiting': 'reported by its owner: artifact_statements_waiting',
  'domain/state-path.ts paths': 'per call',
  'edges/cluster/peek-body.ts chunks': 'per request',
  'edges/cluster/request-body.ts copy': 'per request, at most 64 KiB',
  'edges/graphql/access.ts seen': 'per request',
  'edges/graphql/backlog.ts pending': 'per subscription',
  'edges/graphql/graphql-connection.ts active': 'per connection, at most one entry for each operation',
  'edges/graphql/enum-types.ts types': 'fixed size: types of the schema',
  'edges/graphql/input-types.ts objects': 'fixed size: types of the schema',
  'edges/graphql/document-limits.ts depthOfFragment': 'per request',
  'edges/graphql/operation-cost.ts fragmentCosts': 'per request',
  'edges/graphql/output-types.ts objects': 'fixed size: types of the schema',
  'edges/grpc/world-update-scheduler.ts tenants': 'the edge reports both of them by their number of parts',
  'edges/grpc/call.ts sockets': 'per attempt to connect',
  'edges/grpc/call.ts timers': 'per attempt to connect',
  'edges/grpc/call.ts pendingWrites': 'per attempt to connect',
  'edges/mcp/legacy-sse-transport.ts pending': 'per connection; mcp_requests counts all of them',
  'edges/mcp/streamable-http-transport.ts replies': 'per connection; mcp_requests counts all of them',
  'edges/mqtt/flow-control.ts pauses': 'per connection, at most one entry for each reason',
  'edges/mqtt/mqtt-listeners.ts servers': 'fixed size: one entry for each port',
  'edges/mqtt/puback-queue.ts pending': 'per connection',
  'edges/mqtt/token-buckets.ts buckets': 'the authenticator reports both of them by the names of what they limit',
  'edges/mqtt/device-session.ts errors': 'per connection',
  'edges/mqtt/device-session.ts refusals': 'per connection',
  'edges/mqtt/inbox.ts waiting': 'per connection',
  'edges/mqtt/user-session.ts filters': 'per connection',
  'edges/mqtt/mqtt-connection.ts parts': 'per connection',
  'edges/shared/metrics.ts counts': 'fixed size: labels come from closed lists',
  'edges/websocket/websocket-connection.ts queue': 'per connection',
  'edges/websocket/websocket-connection.ts latestBySubject': 'per connection',
  'machines/compiled.ts configurations': 'fixed size: the states of a machine',
  'machines/compiled.ts lines': 'per call',
  'machines/compiled.ts path': 'fixed size: the guards of a row',
  'operations/devices/series-days.ts byDay': 'per request',
  'operations/devices/series-days.ts found': 'per request',
  'operations/platform/rekey.ts counts': 'per request, at most one entry for each kind, form and key',
  'services/flags.ts listeners': 'fixed size: subscribed when the process starts',
  'services/property-times.ts times': 'per device in the activity log, at most 200 properties',
  'services/shard-hand-over.ts busy': 'fixed size: at most one entry for each shard',
  'services/shard-statuses.ts inProgress': 'fixed size: one entry for each shard',
  'services/shard-hand-over.ts moveAfter': 'fixed size: at most one entry for each shard',
  'services/shard-coordinator.ts peers': 'fixed size: one entry for each node',
  'services/shard-coordinator.ts placement': 'fixed size: one entry for each shard',
  'services/shard-statuses.ts status': 'fixed size: one entry for each shard',
  'services/shard-coordinator.ts view': 'fixed size: one entry for each node and shard',
  'services/token-denylist.ts counts': 'at most one for each of its entries',
  'services/token-denylist.ts entries':
    'revoked_tokens, presented_tokens and presented_tokens_stored count all of them',
  'store/lock/advisory-lock.ts lostListeners': 'fixed size: subscribed when the process starts',
  'store/lock/advisory-lock.ts renewedListeners': 'fixed size: subscribed when the process starts',
  'store/lock/postgres-cluster.ts listeners': 'fixed size: subscribed when the process starts',
  'store/lock/socket-lock.ts listeners': 'fixed size: subscribed when the process starts',
  'store/postgres/pglite/worker.ts chunks': 'per statement',
};

const files = sourceFiles();
const collections = files.flatMap(longLived);

describe('the collections of the service that outlive a call', () => {
  it('are found in classes, in modules and in functions', () => {
    const found = collections.map(({ at }) => at);
    expect(found).toEqual(
      expect.arrayContaining([
        'actors/verification-watches.ts byDevice',
        'edges/mcp/sanitizer.ts sanitizedNames',
        'services/user-cache.ts users',
      ]),
    );
  });

  it('each report their size, or are exceptions with a reason', () => {
    const missing = collections.filter(({ at, gauged }) => !gauged && exceptions[at] === undefined);
    expect(missing.map(({ at }) => at)).toEqual([]);
  });

  it('are exceptions only where they exist and report no size', () => {
    const needed = new Set(collections.filter(({ gauged }) => !gauged).map(({ at }) => at));
    expect(Object.keys(exceptions).filter((at) => !needed.has(at))).toEqual([]);
  });

  it('report under different names', () => {
    const names = files.flatMap(sizeNames);
    expect(names.filter((name, n) => names.indexOf(name) !== n)).toEqual([]);
  });
});
