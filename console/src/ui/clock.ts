import { useSyncExternalStore } from 'react';

// One clock for the page. Countdowns use the service's time, because the clock of the user's computer may be minutes off.

let serverAheadMs = 0;

/** Sets the offset from a `Date` header. It has whole seconds, so smaller differences are ignored. */
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

function subscribe(onTick: () => void): () => void {
  listeners.add(onTick);
  ticking ??= setInterval(() => {
    second = Math.floor(serverNow() / 1000) * 1000;
    for (const listener of listeners) listener();
  }, 1_000);
  return () => {
    listeners.delete(onTick);
    if (listeners.size > 0) return;
    clearInterval(ticking);
    ticking = undefined;
  };
}

const currentSecond = (): number => second;

/** The service's time in whole seconds, updated every second; also where a page is rendered to a text. */
export const useNow = (): number => useSyncExternalStore(subscribe, currentSecond, currentSecond);
