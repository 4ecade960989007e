import type { ActorEntry, ActorKind, ActorPage } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';

// A paged list of actors that is loaded on scrolling and kept up to date: transitions come from a stream, and the visible
// pages are refetched periodically.

export interface ActorFilter {
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

export interface LiveActorList {
  view(): ActorListView;
  subscribe(listener: () => void): () => void;
  /** Sets the visible rows: loads missing pages and refetches stale ones. */
  setVisibleRange(from: number, to: number): void;
  applyTransitions(transitions: readonly ActorTransition[]): void;
  /** Marks all pages as stale. */
  invalidate(): void;
  /** No requests are sent before `open` and after `close`. */
  open(): void;
  close(): void;
}

export function makeLiveActorList({ tenant, kind, state, quarantined }: ActorFilter): LiveActorList {
  const listeners = new Set<() => void>();
  let pages: LoadedPage[] = [];
  let next: string | null = null;
  let view: ActorListView = { entries: [], isComplete: false, loading: true, problem: null };
  let busy = false;
  let closed = true;
  let visible: readonly [number, number] = [0, 0];
  let timer: ReturnType<typeof setTimeout> | undefined;

  function show(change: Partial<ActorListView> = {}): void {
    if (closed) return;
    view = {
      ...view,
      ...change,
      entries: pages.flatMap(({ entries }) => entries),
      isComplete: pages.length > 0 && next === null,
    };
    for (const listener of listeners) listener();
  }

  function pathOf(cursor: string | null): string {
    const query = new URLSearchParams({ limit: `${PAGE}` });
    if (kind !== undefined) query.set('kind', kind);
    if (state !== undefined) query.set('state', state);
    if (tenant !== undefined) query.set('tenant_id', tenant);
    if (quarantined) query.set('quarantined', 'true');
    if (cursor !== null) query.set('cursor', cursor);
    return `/v1/actors?${query}`;
  }

  async function load(index: number): Promise<void> {
    const cursor = pages[index]?.cursor ?? (index === 0 ? null : next);
    busy = true;
    if (index >= pages.length) show({ loading: true });
    try {
      const { actors, next_cursor } = await requestJson<ActorPage>('GET', pathOf(cursor));
      const before = pages[index];
      const isUnchanged =
        before !== undefined && before.entries.at(-1)?.id === actors.at(-1)?.id && index < pages.length - 1;
      // If a page ends at another entry than before, the pages after it are outdated and are reloaded on demand.
      if (!isUnchanged) {
        pages = pages.slice(0, index);
        next = next_cursor;
      }
      pages[index] = { cursor, entries: actors, requestedAt: Date.now() };
      busy = false;
      show({ loading: false, problem: null });
      loadNext();
    } catch (thrown) {
      busy = false;
      const problem = thrown instanceof Problem ? thrown : null;
      if (problem?.status !== 401) show({ loading: false, problem });
      const mayRetry = problem !== null && (problem.status === 0 || problem.status === 429 || problem.status >= 500);
      if (mayRetry) later((problem.retryAfterS ?? 5) * 1000);
    }
  }

  function later(ms: number): void {
    clearTimeout(timer);
    timer = setTimeout(loadNext, ms);
  }

  /** Whether rows below the visible ones are missing. */
  const isShort = (): boolean =>
    pages.length === 0 || (next !== null && visible[1] + LOAD_AHEAD_ROWS >= view.entries.length);

  /** Loads the next missing or stale page, if any. */
  function loadNext(): void {
    if (busy || closed) return;
    const [from, to] = visible;
    if (isShort()) return void load(pages.length);
    let start = 0;
    const stale = pages.findIndex(({ entries, requestedAt }) => {
      const isVisible = start <= to && start + Math.max(1, entries.length) > from;
      start += entries.length;
      return isVisible && Date.now() - requestedAt > STALE_MS;
    });
    if (stale >= 0) void load(stale);
    else later(STALE_MS / 3);
  }

  return {
    open() {
      closed = false;
      loadNext();
    },
    view: () => view,
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    setVisibleRange(from, to) {
      visible = [from, to];
      if (isShort()) loadNext();
      else later(SCROLL_SETTLE_MS);
    },
    applyTransitions(transitions) {
      const latest = new Map(transitions.map((one) => [one.id, one]));
      const created = new Set(transitions.filter(({ from }) => from === null).map(({ id }) => id));
      let changed = false;
      pages = pages.map((page) => {
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
      if (created.size > 0 || state !== undefined) {
        const [first] = pages;
        if (first !== undefined) first.requestedAt = 0;
        later(300);
      }
      if (changed) show();
    },
    invalidate() {
      for (const page of pages) page.requestedAt = 0;
      loadNext();
    },
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
