import type { Api } from './api.ts';
import { FailedError } from './errors.ts';
import { type LiveUpdate, openStateStream } from './update-stream.ts';

/** Timeout for each awaited update. */
const UPDATE_TIMEOUT_MS = 20_000;

/** Records the updates of a WebSocket stream, so that a caller can wait for one that may already have arrived. */
export interface UpdateRecorder {
  /** Resolves with the first matching update, received or future. */
  waitFor(matches: (update: LiveUpdate) => boolean, what: string): Promise<LiveUpdate>;
}

/** Subscribes to `events` and records their updates until `close`. */
export async function recordUpdates(api: Api, events: readonly string[]): Promise<UpdateRecorder & { close(): void }> {
  const updates: LiveUpdate[] = [];
  const waiting = new Set<() => void>();
  const stream = await openStateStream(api, { events }, (update) => {
    updates.push(update);
    for (const check of waiting) check();
  });
  stream.ended.catch(() => {});
  return {
    close: () => stream.close(),
    waitFor: (matches, what) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(check);
          reject(new FailedError(`timed out after ${UPDATE_TIMEOUT_MS / 1000} s waiting for ${what}`));
        }, UPDATE_TIMEOUT_MS);
        const check = () => {
          const found = updates.find(matches);
          if (found === undefined) return;
          clearTimeout(timer);
          waiting.delete(check);
          resolve(found);
        };
        waiting.add(check);
        check();
      }),
  };
}
