import type { ActorEntry, ActorKind, ActorPage } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';

// A long list that is loaded as somebody scrolls, and stays true while they look: what happens is told by a stream, and the
// pages in sight are asked for again from time to time.

export interface ActorFilter {
  /** Another than the reader's own. */
  tenant?: string;
  kind?: ActorKind;
  state?: string;
  held?: boolean;
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
  /** Where it begins; null for the first. */
  cursor: string | null;
  entries: ActorEntry[];
  requestedAt: number;
}

export interface ActorListView {
  entries: readonly ActorEntry[];
  /** There is nothing below. */
  isComplete: boolean;
  loading: boolean;
  problem: Problem | null;
}

const PAGE = 200;
/** Rows below what is seen that are loaded ahead. */
const LOAD_AHEAD_ROWS = 150;
const STALE_MS = 15_000;
/** Who scrolls by looks at nothing yet. */
const SCROLL_SETTLE_MS = 400;

export interface LiveActorList {
  view(): ActorListView;
  subscribe(hear: () => void): () => void;
  /** These rows are in sight: loads what is missing, refreshes what is old. */
  setVisibleRange(from: number, to: number): void;
  applyTransitions(told: readonly ActorTransition[]): void;
  /** Everything may have changed. */
  invalidate(): void;
  /** It asks for nothing before, and after `close`. */
  open(): void;
  close(): void;
}

export function makeLiveActorList({ tenant, kind, state, held }: ActorFilter): LiveActorList {
  const listeners = new Set<() => void>();
  let parts: LoadedPage[] = [];
  let next: string | null = null;
  let view: ActorListView = { entries: [], isComplete: false, loading: true, problem: null };
  let busy = false;
  let closed = true;
  let inSight: readonly [number, number] = [0, 0];
  let again: ReturnType<typeof setTimeout> | undefined;

  function show(change: Partial<ActorListView> = {}): void {
    if (closed) return;
    view = {
      ...view,
      ...change,
      entries: parts.flatMap(({ entries }) => entries),
      isComplete: parts.length > 0 && next === null,
    };
    for (const hear of listeners) hear();
  }

  function pathOf(cursor: string | null): string {
    const query = new URLSearchParams({ limit: `${PAGE}` });
    if (kind !== undefined) query.set('kind', kind);
    if (state !== undefined) query.set('state', state);
    if (tenant !== undefined) query.set('tenant_id', tenant);
    if (held) query.set('quarantined', 'true');
    if (cursor !== null) query.set('cursor', cursor);
    return `/v1/actors?${query}`;
  }

  async function load(index: number): Promise<void> {
    const cursor = parts[index]?.cursor ?? (index === 0 ? null : next);
    busy = true;
    if (index >= parts.length) show({ loading: true });
    try {
      const { actors, next_cursor } = await requestJson<ActorPage>('GET', pathOf(cursor));
      const before = parts[index];
      const fits = before !== undefined && before.entries.at(-1)?.id === actors.at(-1)?.id && index < parts.length - 1;
      // A page that ends elsewhere than before is followed by others: they are loaded anew where somebody looks.
      if (!fits) {
        parts = parts.slice(0, index);
        next = next_cursor;
      }
      parts[index] = { cursor, entries: actors, requestedAt: Date.now() };
      busy = false;
      show({ loading: false, problem: null });
      look();
    } catch (thrown) {
      busy = false;
      const problem = thrown instanceof Problem ? thrown : null;
      if (problem?.status !== 401) show({ loading: false, problem });
      const mayWork = problem !== null && (problem.status === 0 || problem.status === 429 || problem.status >= 500);
      if (mayWork) later((problem.retryAfterS ?? 5) * 1000);
    }
  }

  function later(ms: number): void {
    clearTimeout(again);
    again = setTimeout(look, ms);
  }

  /** Whether rows are missing below what is seen. */
  const isShort = (): boolean =>
    parts.length === 0 || (next !== null && inSight[1] + LOAD_AHEAD_ROWS >= view.entries.length);

  /** The next thing to ask for, if any. */
  function look(): void {
    if (busy || closed) return;
    const [from, to] = inSight;
    if (isShort()) return void load(parts.length);
    let start = 0;
    const old = parts.findIndex(({ entries, requestedAt }) => {
      const seen = start <= to && start + Math.max(1, entries.length) > from;
      start += entries.length;
      return seen && Date.now() - requestedAt > STALE_MS;
    });
    if (old >= 0) void load(old);
    else later(STALE_MS / 3);
  }

  return {
    open() {
      closed = false;
      look();
    },
    view: () => view,
    subscribe(hear) {
      listeners.add(hear);
      return () => listeners.delete(hear);
    },
    setVisibleRange(from, to) {
      inSight = [from, to];
      if (isShort()) look();
      else later(SCROLL_SETTLE_MS);
    },
    applyTransitions(told) {
      const latest = new Map(told.map((one) => [one.id, one]));
      const fresh = new Set(told.filter(({ from }) => from === null).map(({ id }) => id));
      let changed = false;
      parts = parts.map((part) => {
        if (!part.entries.some(({ id }) => latest.has(id))) return part;
        changed = true;
        return {
          ...part,
          entries: part.entries.map((entry) => {
            const one = latest.get(entry.id);
            if (one === undefined) return entry;
            fresh.delete(entry.id);
            return { ...entry, state: one.to, since: new Date(one.at).toISOString(), live: true };
          }),
        };
      });
      // Who is new stands on top; with a filter of states anybody may have come in anywhere.
      if (fresh.size > 0 || state !== undefined) {
        const [first] = parts;
        if (first !== undefined) first.requestedAt = 0;
        later(300);
      }
      if (changed) show();
    },
    invalidate() {
      for (const part of parts) part.requestedAt = 0;
      look();
    },
    close() {
      closed = true;
      clearTimeout(again);
    },
  };
}
