import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { findStates } from '../../machines/chart.ts';
import { currentDefinition } from '../../machines/versions.ts';
import type { ActorFilter, InspectionStore, ListedActor } from '../../store/contract/inspection.ts';
import type { Page, Position } from '../../store/contract/page.ts';

type Kind = ListedActor['ref']['kind'];

/** Actors of several kinds in one list. Refuses a state that no machine of these kinds has. */
export async function listActorsOfKinds(
  store: Pick<InspectionStore, 'actors'>,
  asked: {
    tenantId: Uuid;
    kinds: readonly Kind[];
    state: string | undefined;
    quarantined: boolean | undefined;
    limit: number;
    after: Position | undefined;
  },
): Promise<Outcome<Page<ListedActor>>> {
  const { tenantId, kinds, state, quarantined, limit, after } = asked;
  const found = kinds.flatMap((kind) => {
    const states = state === undefined ? undefined : parseStateFilter(kind, state);
    if (states === null) return [];
    const filter: ActorFilter = { ...(states && { states }), ...(quarantined !== undefined && { quarantined }) };
    return [{ kind, filter }];
  });
  if (found.length === 0) return unknownState(state ?? '');
  const pages = await Promise.all(found.map(({ kind, filter }) => store.actors(tenantId, kind, filter, limit, after)));
  return done(mergePages(pages, limit));
}

/** The states that each part of the text may mean; null where one of them means none. */
function parseStateFilter(kind: Kind, text: string): ActorFilter['states'] | null {
  const { machine } = currentDefinition(kind);
  const groups = text.split(',').map((part) => findStates(machine, part));
  return groups.every((group) => group.length > 0) ? groups : null;
}

const unknownState = (state: string) =>
  refuse('VALIDATION_FAILED', `No such actor has a state ${JSON.stringify(state)}: GET /machines has them all.`, {
    errors: [{ path: 'state', message: 'is no state of these machines' }],
  });

/** A kind that has more was looked at down to its `next`: what others have below that waits for the next page. */
function mergePages(pages: readonly Page<ListedActor>[], limit: number): Page<ListedActor> {
  const edge = pages.reduce<Position | null>(
    (newest, { next }) => (next !== null && (newest === null || isNewer(next, newest)) ? next : newest),
    null,
  );
  const known = pages
    .flatMap(({ items }) => items)
    .filter((actor) => edge === null || !isNewer(edge, positionOf(actor)))
    .sort((a, b) => (isNewer(positionOf(a), positionOf(b)) ? -1 : 1));
  const items = known.slice(0, limit);
  const last = items.at(-1);
  return {
    items,
    next: known.length > limit && last ? positionOf(last) : edge,
    positions: () => items.map(positionOf),
  };
}

const positionOf = ({ createdAt, ref }: ListedActor): Position => ({ createdAt, id: ref.id });

const isNewer = (one: Position, other: Position): boolean =>
  one.createdAt !== other.createdAt ? one.createdAt > other.createdAt : one.id > other.id;
