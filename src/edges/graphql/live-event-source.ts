import type { Actors } from '../../actors/contract.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Update } from '../shared/live/update.ts';
import { type UpdateKindName, updateKinds } from '../shared/live/update-kinds.ts';

type UpdateListener = (update: Update) => void;

/** What happens in the tenants that somebody listens to. */
export interface LiveEventSource {
  /** Answers how to end it. */
  subscribe(kind: UpdateKindName, tenantId: Uuid, ear: UpdateListener): () => void;
  /** How many hear of this in that tenant. */
  subscriberCount(kind: UpdateKindName, tenantId: Uuid): number;
}

export function makeLiveEventSource(actors: Pick<Actors, 'subscribe'>): LiveEventSource & SizeReporter {
  const heard = new Map<UpdateKindName, { stop(): void; byTenant: Map<Uuid, Set<UpdateListener>> }>();

  /** Nothing of a kind is listened for while nobody hears it. */
  function channel(kind: UpdateKindName) {
    const known = heard.get(kind);
    if (known !== undefined) return known;
    const byTenant = new Map<Uuid, Set<UpdateListener>>();
    const stop = updateKinds[kind].subscribe(actors, (update) => {
      for (const ear of byTenant.get(update.tenantId) ?? []) ear(update);
    });
    const opened = { stop, byTenant };
    heard.set(kind, opened);
    return opened;
  }

  return {
    sizes() {
      const tenants = [...heard.values()].flatMap(({ byTenant }) => [...byTenant.values()]);
      return { graphql_subscriptions: tenants.reduce((sum, ears) => sum + ears.size, 0) };
    },
    subscriberCount: (kind, tenantId) => heard.get(kind)?.byTenant.get(tenantId)?.size ?? 0,
    subscribe(kind, tenantId, ear) {
      const { stop, byTenant } = channel(kind);
      const ears = byTenant.get(tenantId) ?? new Set();
      byTenant.set(tenantId, ears.add(ear));
      return () => {
        // Ended twice, it would end those who listen by then.
        if (!ears.delete(ear)) return;
        if (ears.size === 0) byTenant.delete(tenantId);
        if (byTenant.size > 0) return;
        stop();
        heard.delete(kind);
      };
    },
  };
}
