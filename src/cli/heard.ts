import type { Api } from './api.ts';
import { Failed } from './failures.ts';
import { type LiveUpdate, openLive } from './live.ts';

/** How long a step of a story may take before it counts as not happened. */
const PATIENCE_MS = 20_000;

/** What a WebSocket client has heard so far, and a way to wait for more. */
export interface Heard {
  /** The first that matches, of what was heard and of what will be. */
  until(matches: (update: LiveUpdate) => boolean, what: string): Promise<LiveUpdate>;
}

/** Listens until `close` is called. */
export async function hear(api: Api, events: readonly string[]): Promise<Heard & { close(): void }> {
  const updates: LiveUpdate[] = [];
  const waiting = new Set<() => void>();
  const live = await openLive(api, { events }, (update) => {
    updates.push(update);
    for (const look of waiting) look();
  });
  live.ended.catch(() => {});
  return {
    close: () => live.close(),
    until: (matches, what) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(look);
          reject(new Failed(`not heard within ${PATIENCE_MS / 1000} s: ${what}`));
        }, PATIENCE_MS);
        const look = () => {
          const found = updates.find(matches);
          if (found === undefined) return;
          clearTimeout(timer);
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
  };
}
