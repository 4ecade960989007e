import type { Actors } from '../../actors/contract.ts';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import type { Uuid } from '../../domain/values.ts';
import { type KindName, kinds } from '../shared/live/kinds.ts';
import type { Update } from '../shared/live/update.ts';

type Ear = (update: Update) => void;

/** What happens in the tenants that somebody listens to. */
export interface Feed {
  /** Answers how to end it. */
  listen(kind: KindName, tenantId: Uuid, ear: Ear): () => void;
  /** How many hear of this in that tenant. */
  ears(kind: KindName, tenantId: Uuid): number;
}

export function makeFeed(actors: Pick<Actors, 'subscribe'>): Feed & SizeReporter {
  const heard = new Map<KindName, { stop(): void; byTenant: Map<Uuid, Set<Ear>> }>();

  /** Nothing of a kind is listened for while nobody hears it. */
  function channel(kind: KindName) {
    const known = heard.get(kind);
    if (known !== undefined) return known;
    const byTenant = new Map<Uuid, Set<Ear>>();
    const stop = kinds[kind].listen(actors, (update) => {
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
    ears: (kind, tenantId) => heard.get(kind)?.byTenant.get(tenantId)?.size ?? 0,
    listen(kind, tenantId, ear) {
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
