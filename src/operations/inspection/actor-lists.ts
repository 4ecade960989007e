import type { Position } from '../../domain/cursor.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { findStates } from '../../machines/chart.ts';
import { currentDefinition } from '../../machines/versions.ts';
import type { ActorFilter, InspectionStore, ListedActor } from '../../store/contract/inspection.ts';
import { MAX_COUNTED, type Page } from '../../store/contract/page.ts';

type Kind = ListedActor['ref']['kind'];

/** Lists actors of several kinds, merged. Refuses a state that none of these machines has. */
export async function listActorsOfKinds(
  store: Pick<InspectionStore, 'actors'>,
  query: {
    tenantId: Uuid;
    kinds: readonly Kind[];
    state: string | undefined;
    quarantined: boolean | undefined;
    limit: number;
    after: Position | undefined;
  },
): Promise<Outcome<Page<ListedActor>>> {
  const { tenantId, kinds, state, quarantined, limit, after } = query;
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

/** The states that match each comma-separated part; null if a part matches none. */
function parseStateFilter(kind: Kind, text: string): ActorFilter['states'] | null {
  const { machine } = currentDefinition(kind);
  const groups = text.split(',').map((part) => findStates(machine, part));
  return groups.every((group) => group.length > 0) ? groups : null;
}

const unknownState = (state: string) =>
  refuse(
    'VALIDATION_FAILED',
    `Unknown state ${JSON.stringify(state)}. GET /machines lists the machines and their states.`,
    {
      errors: [{ path: 'state', message: 'is not a state of these machines' }],
    },
  );

/**
 * A page with `next` is complete only down to that position; entries of other kinds below it are left for the next
 * page.
 */
function mergePages(pages: readonly Page<ListedActor>[], limit: number): Page<ListedActor> {
  const boundary = pages.reduce<Position | null>(
    (newest, { next }) => (next !== null && (newest === null || isNewer(next, newest)) ? next : newest),
    null,
  );
  const known = pages
    .flatMap(({ items }) => items)
    .filter((actor) => boundary === null || !isNewer(boundary, positionOf(actor)))
    .sort((a, b) => (isNewer(positionOf(a), positionOf(b)) ? -1 : 1));
  const items = known.slice(0, limit);
  const last = items.at(-1);
  return {
    items,
    next: known.length > limit && last ? positionOf(last) : boundary,
    positions: () => items.map(positionOf),
    count: () => sumOfCounts(pages),
  };
}

/** Null if one of them is not counted. */
async function sumOfCounts(pages: readonly Page<ListedActor>[]): Promise<number | null> {
  const counts = await Promise.all(pages.map((page) => page.count()));
  const sum = counts.reduce<number | null>((all, one) => (all === null || one === null ? null : all + one), 0);
  return sum === null || sum > MAX_COUNTED ? null : sum;
}

const positionOf = ({ createdAt, ref }: ListedActor): Position => ({ createdAt, id: ref.id });

const isNewer = (one: Position, other: Position): boolean =>
  one.createdAt !== other.createdAt ? one.createdAt > other.createdAt : one.id > other.id;
