import { useSyncExternalStore } from 'react';

// One clock for the page. Countdowns go by the service's time: a reader's computer may be minutes off.

let serverAheadMs = 0;

/** `Date` of an answer, which is whole seconds: a difference within them is none. */
export function noteServerTime(date: string | null): void {
  const at = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(at)) return;
  const difference = at + 500 - Date.now();
  serverAheadMs = Math.abs(difference) < 1_500 ? 0 : difference;
}

export const serverNow = (): number => Date.now() + serverAheadMs;

const listeners = new Set<() => void>();
let second = Math.floor(serverNow() / 1000) * 1000;
let ticking: ReturnType<typeof setInterval> | undefined;

function subscribe(hear: () => void): () => void {
  listeners.add(hear);
  ticking ??= setInterval(() => {
    second = Math.floor(serverNow() / 1000) * 1000;
    for (const listener of listeners) listener();
  }, 1_000);
  return () => {
    listeners.delete(hear);
    if (listeners.size > 0) return;
    clearInterval(ticking);
    ticking = undefined;
  };
}

/** The service's time, whole seconds, told again each second. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => second);
