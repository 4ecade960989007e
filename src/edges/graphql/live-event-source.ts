import type { Actors } from '../../actors/contract.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Update } from '../shared/live/update.ts';
import { type UpdateKindName, updateKinds } from '../shared/live/update-kinds.ts';

type UpdateListener = (update: Update) => void;

/** Fans updates out to the subscriptions of a tenant. */
export interface LiveEventSource {
  /** Returns the function that unsubscribes. */
  subscribe(kind: UpdateKindName, tenantId: Uuid, listener: UpdateListener): () => void;
  /** Active subscriptions to this kind of update in a tenant. */
  subscriberCount(kind: UpdateKindName, tenantId: Uuid): number;
}

export function makeLiveEventSource(actors: Pick<Actors, 'subscribe'>): LiveEventSource & SizeReporter {
  const channels = new Map<UpdateKindName, { stop(): void; byTenant: Map<Uuid, Set<UpdateListener>> }>();

  /** Subscribes to a kind of update only while it has listeners. */
  function channel(kind: UpdateKindName) {
    const existing = channels.get(kind);
    if (existing !== undefined) return existing;
    const byTenant = new Map<Uuid, Set<UpdateListener>>();
    const stop = updateKinds[kind].subscribe(actors, (update) => {
      for (const listener of byTenant.get(update.tenantId) ?? []) listener(update);
    });
    const opened = { stop, byTenant };
    channels.set(kind, opened);
    return opened;
  }

  return {
    sizes() {
      const tenants = [...channels.values()].flatMap(({ byTenant }) => [...byTenant.values()]);
      return { graphql_subscriptions: tenants.reduce((sum, listeners) => sum + listeners.size, 0) };
    },
    subscriberCount: (kind, tenantId) => channels.get(kind)?.byTenant.get(tenantId)?.size ?? 0,
    subscribe(kind, tenantId, listener) {
      const { stop, byTenant } = channel(kind);
      const listeners = byTenant.get(tenantId) ?? new Set();
      byTenant.set(tenantId, listeners.add(listener));
      return () => {
        // A second call must not stop the channel of a newer subscription.
        if (!listeners.delete(listener)) return;
        if (listeners.size === 0) byTenant.delete(tenantId);
        if (byTenant.size > 0) return;
        stop();
        channels.delete(kind);
      };
    },
  };
}
