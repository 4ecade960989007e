import type { Api } from './api.ts';
import { FailedError } from './errors.ts';
import { type LiveUpdate, openStateStream } from './update-stream.ts';

/** How long a step of a story may take before it counts as not happened. */
const UPDATE_TIMEOUT_MS = 20_000;

/** What a WebSocket client has heard so far, and a way to wait for more. */
export interface UpdateRecorder {
  /** The first that matches, of what was heard and of what will be. */
  waitFor(matches: (update: LiveUpdate) => boolean, what: string): Promise<LiveUpdate>;
}

/** Listens until `close` is called. */
export async function recordUpdates(api: Api, events: readonly string[]): Promise<UpdateRecorder & { close(): void }> {
  const updates: LiveUpdate[] = [];
  const waiting = new Set<() => void>();
  const live = await openStateStream(api, { events }, (update) => {
    updates.push(update);
    for (const look of waiting) look();
  });
  live.ended.catch(() => {});
  return {
    close: () => live.close(),
    waitFor: (matches, what) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(look);
          reject(new FailedError(`not heard within ${UPDATE_TIMEOUT_MS / 1000} s: ${what}`));
        }, UPDATE_TIMEOUT_MS);
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
