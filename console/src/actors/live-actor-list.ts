import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { ActorEntry, ActorListBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';

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
 * visible pages are refetched periodically.
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
  #visible: readonly [number, number] = [0, 0];
  #timer: ReturnType<typeof setTimeout> | undefined;

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

  applyTransitions(transitions: readonly ActorTransition[]): void {
    const latest = new Map(transitions.map((one) => [one.id, one]));
    const created = new Set(transitions.filter(({ from }) => from === null).map(({ id }) => id));
    let changed = false;
    this.#pages = this.#pages.map((page) => {
      if (!page.entries.some(({ id }) => latest.has(id))) return page;
      changed = true;
      return {
        ...page,
        entries: page.entries.map((entry) => {
          const one = latest.get(entry.id);
          if (one === undefined) return entry;
          created.delete(entry.id);
          return { ...entry, state: one.to, since: new Date(one.at).toISOString(), live: true };
        }),
      };
    });
    // New actors are at the top. With a state filter an actor may have entered the list at any position.
    if (created.size > 0 || this.#filter.state !== undefined) {
      const [first] = this.#pages;
      if (first !== undefined) first.requestedAt = 0;
      this.#later(NEW_ACTORS_MS);
    }
    if (changed) this.#show();
  }

  /** Marks all pages as stale. */
  invalidate(): void {
    for (const page of this.#pages) page.requestedAt = 0;
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
    const stale = this.#pages.findIndex(({ entries, requestedAt }) => {
      const isVisible = start <= to && start + Math.max(1, entries.length) > from;
      start += entries.length;
      return isVisible && Date.now() - requestedAt > STALE_MS;
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
    this.#busy = true;
    if (index >= this.#pages.length) this.#show({ loading: true });
    try {
      this.#setPage(index, cursor, await requestJson<ActorListBody>('GET', pathOf(this.#filter, cursor)));
      this.#busy = false;
      this.#show({ loading: false, problem: null });
      this.#loadNext();
    } catch (thrown) {
      this.#busy = false;
      this.#showProblem(thrown instanceof Problem ? thrown : null);
    }
  }

  #setPage(index: number, cursor: string | null, { actors, next_cursor }: ActorListBody): void {
    const before = this.#pages[index];
    const isUnchanged =
      before !== undefined && before.entries.at(-1)?.id === actors.at(-1)?.id && index < this.#pages.length - 1;
    // If a page ends at another entry than before, the pages after it are outdated and are reloaded on demand.
    if (!isUnchanged) {
      this.#pages = this.#pages.slice(0, index);
      this.#next = next_cursor;
    }
    this.#pages[index] = { cursor, entries: actors, requestedAt: Date.now() };
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

function pathOf({ tenant, kind, state, quarantined }: ActorListFilter, cursor: string | null): string {
  const query = new URLSearchParams({ limit: `${PAGE}` });
  if (kind !== undefined) query.set('kind', kind);
  if (state !== undefined) query.set('state', state);
  if (tenant !== undefined) query.set('tenant_id', tenant);
  if (quarantined) query.set('quarantined', 'true');
  if (cursor !== null) query.set('cursor', cursor);
  return `/v1/actors?${query}`;
}
