import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { ActorEntry, ActorListBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import { pathsIn } from './actor-display.ts';

export interface ActorListFilter {
  /** A tenant other than the user's. */
  tenant?: string;
  kind?: ActorKind;
  state?: string;
  quarantined?: boolean;
}

export interface ActorTransition {
  kind: ActorKind;
  id: string;
  from: string | null;
  to: string;
  event: string;
  at: number;
}

interface LoadedPage {
  /** Cursor of the page; null for the first. */
  cursor: string | null;
  entries: ActorEntry[];
  requestedAt: number;
}

export interface ActorListView {
  entries: readonly ActorEntry[];
  /** The last page is loaded. */
  isComplete: boolean;
  loading: boolean;
  problem: Problem | null;
}

const PAGE = 200;
/** Rows below the visible ones that are prefetched. */
const LOAD_AHEAD_ROWS = 150;
const STALE_MS = 15_000;
/** Stale pages are refetched only after scrolling has stopped for this long. */
const SCROLL_SETTLE_MS = 400;
/** Delay before the first page is refetched because of new actors. */
const NEW_ACTORS_MS = 300;

/**
 * A paged list of actors that is loaded on scrolling and kept up to date: transitions come from a stream, and the
 * visible pages are refetched periodically; all loaded pages, one after the other, if the rows are shown in another order.
 */
export class LiveActorList {
  readonly #filter: ActorListFilter;
  readonly #listeners = new Set<() => void>();
  #pages: LoadedPage[] = [];
  /** Cursor of the page after the loaded ones; null if there is none. */
  #next: string | null = null;
  #view: ActorListView = { entries: [], isComplete: false, loading: true, problem: null };
  #busy = false;
  #closed = true;
  /** Transitions that arrived since the running request was sent: its answer may have been read before them. */
  #sinceRequest: ActorTransition[] = [];
  #visible: readonly [number, number] = [0, 0];
  #isReordered = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #newActorsTimer: ReturnType<typeof setTimeout> | undefined;
  /** Answers to requests that were sent until then are stale: those for the first page, and those for any page. */
  #firstStaleUntil = 0;
  #allStaleUntil = 0;

  constructor(filter: ActorListFilter) {
    this.#filter = filter;
  }

  /** No requests are sent before `open` and after `close`. */
  open(): void {
    this.#closed = false;
    this.#loadNext();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#newActorsTimer);
    this.#newActorsTimer = undefined;
  }

  readonly view = (): ActorListView => this.#view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Sets the visible rows: loads missing pages and refetches stale ones. */
  setVisibleRange(from: number, to: number): void {
    this.#visible = [from, to];
    if (this.#isShort()) this.#loadNext();
    else this.#later(SCROLL_SETTLE_MS);
  }

  /** Whether the rows are shown in another order than that of the list, so that any loaded row may be visible. */
  setReordered(isReordered: boolean): void {
    this.#isReordered = isReordered;
    this.#later(SCROLL_SETTLE_MS);
  }

  applyTransitions(transitions: readonly ActorTransition[]): void {
    if (this.#busy) this.#sinceRequest.push(...transitions);
    const latest = latestOfEach(transitions);
    const missing = new Map(latest);
    const { state: filtered } = this.#filter;
    let changed = false;
    this.#pages = this.#pages.map((page) => {
      if (!page.entries.some(({ id }) => latest.has(id))) return page;
      changed = true;
      return {
        ...page,
        entries: page.entries.flatMap((entry) => {
          const one = latest.get(entry.id);
          if (one === undefined) return [entry];
          missing.delete(entry.id);
          if (one.at < Date.parse(entry.since)) return [entry];
          if (!isInState(one.to, filtered)) return [];
          return [{ ...entry, state: one.to, since: new Date(one.at).toISOString(), live: true }];
        }),
      };
    });
    this.#requestMissing([...missing.values()]);
    if (changed) this.#show();
  }

  /** Refetches the pages where actors that are not in the list may be now. */
  #requestMissing(missing: readonly ActorTransition[]): void {
    const { state } = this.#filter;
    const entered = missing.filter(
      ({ from, to }) => isInState(to, state) && (from === null || !isInState(from, state)),
    );
    if (entered.length === 0) return;
    // New actors are at the top. Others enter at any position.
    const now = Date.now();
    this.#firstStaleUntil = now;
    if (entered.some(({ from }) => from !== null) && now - this.#allStaleUntil > STALE_MS) this.#allStaleUntil = now;
    this.#newActorsTimer ??= setTimeout(() => {
      this.#newActorsTimer = undefined;
      this.#loadNext();
    }, NEW_ACTORS_MS);
  }

  /** Marks all pages as stale. */
  invalidate(): void {
    this.#allStaleUntil = Date.now();
    this.#loadNext();
  }

  #show(change: Partial<ActorListView> = {}): void {
    if (this.#closed) return;
    this.#view = {
      ...this.#view,
      ...change,
      entries: this.#pages.flatMap(({ entries }) => entries),
      isComplete: this.#pages.length > 0 && this.#next === null,
    };
    for (const listener of this.#listeners) listener();
  }

  /** Loads the next missing or stale page, if any. */
  #loadNext(): void {
    if (this.#busy || this.#closed) return;
    const [from, to] = this.#visible;
    if (this.#isShort()) return void this.#load(this.#pages.length);
    let start = 0;
    // With all pages visible, the requests are as frequent as with one.
    const staleMs = this.#isReordered ? STALE_MS * this.#pages.length : STALE_MS;
    const now = Date.now();
    const stale = this.#pages.findIndex(({ entries, requestedAt }, index) => {
      const isVisible = this.#isReordered || (start <= to && start + Math.max(1, entries.length) > from);
      start += entries.length;
      const staleUntil = index === 0 ? Math.max(this.#firstStaleUntil, this.#allStaleUntil) : this.#allStaleUntil;
      return isVisible && (requestedAt <= staleUntil || now - requestedAt > staleMs);
    });
    if (stale >= 0) void this.#load(stale);
    else this.#later(STALE_MS / 3);
  }

  /** Whether rows below the visible ones are missing. */
  #isShort(): boolean {
    const [, to] = this.#visible;
    return this.#pages.length === 0 || (this.#next !== null && to + LOAD_AHEAD_ROWS >= this.#view.entries.length);
  }

  async #load(index: number): Promise<void> {
    const cursor = this.#pages[index]?.cursor ?? (index === 0 ? null : this.#next);
    const requestedAt = Date.now();
    this.#busy = true;
    this.#sinceRequest = [];
    if (index >= this.#pages.length) this.#show({ loading: true });
    try {
      const body = await requestJson<ActorListBody>('GET', pathOf(this.#filter, cursor));
      this.#setPage(index, { cursor, entries: body.actors, requestedAt }, body.next_cursor);
      this.#busy = false;
      this.applyTransitions(this.#sinceRequest);
      this.#show({ loading: false, problem: null });
      this.#loadNext();
    } catch (thrown) {
      this.#busy = false;
      this.#showProblem(thrown instanceof Problem ? thrown : null);
    }
  }

  #setPage(index: number, page: LoadedPage, nextCursor: string | null): void {
    const before = this.#pages[index];
    const after = this.#pages[index + 1];
    const kept = after === undefined || before === undefined ? null : joinPages(before, page, after, nextCursor);
    if (kept !== null) this.#pages.splice(index, 2, ...kept);
    else {
      // The pages after it are unknown, and are reloaded on demand.
      this.#pages = [...this.#pages.slice(0, index), page];
      this.#next = nextCursor;
    }
  }

  #showProblem(problem: Problem | null): void {
    if (problem?.status !== 401) this.#show({ loading: false, problem });
    const mayRetry = problem !== null && (problem.status === 0 || problem.status === 429 || problem.status >= 500);
    if (mayRetry) this.#later((problem.retryAfterS ?? 5) * 1000);
  }

  #later(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#loadNext(), ms);
  }
}

/** One transition per actor, from the state before its first one: an actor that is new is not in the list yet. */
function latestOfEach(transitions: readonly ActorTransition[]): Map<string, ActorTransition> {
  const latest = new Map<string, ActorTransition>();
  for (const one of transitions) latest.set(one.id, { ...one, from: (latest.get(one.id) ?? one).from });
  return latest;
}

/** Whether a state, `a.b,c.d`, matches a filter: each of its comma-separated parts is a path or a part of one. */
function isInState(state: string, filter: string | undefined): boolean {
  if (filter === undefined) return true;
  const paths = pathsIn(state).map((path) => `.${path}.`);
  return filter.split(',').every((part) => paths.some((path) => path.includes(`.${part}.`)));
}

/**
 * A page that was loaded again, and the page after it, without duplicate and missing entries. New entries move the last
 * ones of the page to the next one, and removed ones let it reach into the next one. Null if it does not meet what was
 * known.
 */
function joinPages(
  before: LoadedPage,
  page: LoadedPage,
  after: LoadedPage,
  nextCursor: string | null,
): readonly [LoadedPage, LoadedPage] | null {
  if (nextCursor === null) return null;
  const known = new Map(after.entries.map(({ id }, position) => [id, position]));
  const overlap = page.entries.findIndex(({ id }) => known.has(id));
  if (overlap >= 0) {
    const rest = after.entries.slice(known.get(page.entries[overlap]?.id ?? ''));
    return [
      { ...page, entries: page.entries.slice(0, overlap) },
      { ...after, entries: rest },
    ];
  }
  const lastId = page.entries.at(-1)?.id;
  const last = before.entries.findIndex(({ id }) => id === lastId);
  // A page of a filtered list can be empty: then all its entries have moved, if it had any.
  if (last < 0 && lastId !== undefined) return null;
  const moved = before.entries.slice(last + 1);
  return [page, { ...after, cursor: nextCursor, entries: [...moved, ...after.entries] }];
}

function pathOf({ tenant, kind, state, quarantined }: ActorListFilter, cursor: string | null): string {
  const query = new URLSearchParams({ limit: `${PAGE}` });
  if (kind !== undefined) query.set('kind', kind);
  if (state !== undefined) query.set('state', state);
  if (tenant !== undefined) query.set('tenant_id', tenant);
  if (quarantined) query.set('quarantined', 'true');
  if (cursor !== null) query.set('cursor', cursor);
  return `/v1/actors?${query}`;
}
