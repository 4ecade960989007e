import type { TimeWindow } from '../charts/chart-window.ts';
import type { ShownState, StateSegment } from '../charts/points.ts';
import { stateName } from '../charts/state-band.ts';
import { stateWord } from '../devices/main-value.ts';

// The states of a text or boolean in a time, for a tile.

/** A state that lasts, as parts of the time: 0 is its beginning, 1 its end. */
export interface StatePart {
  state: ShownState;
  from: number;
  width: number;
}

/** More than this do not fit into a tile. */
const MAX_NAMED = 3;

/** `locked`, `heat`: the word of a boolean with known words, otherwise its value. */
export const shownStateName = (name: string, state: ShownState): string => stateWord(name, state) ?? stateName(state);

/** The parts in their order. The states of an interval in which several lasted are next to each other. */
export function statesInWindow(segments: readonly StateSegment[], { from, to }: TimeWindow): StatePart[] {
  const parts: StatePart[] = [];
  for (const segment of segments) {
    const start = Math.max(segment.from, from);
    const length = Math.min(segment.to, to) - start;
    if (length <= 0) continue;
    let at = (start - from) / (to - from);
    for (const { state, share } of segment.shares) {
      const width = (share * length) / (to - from);
      // Another value at the same time.
      if (width <= 0) continue;
      parts.push({ state, from: at, width });
      at += width;
    }
  }
  return parts;
}

/** Each state with its share of the known time, such as `96 %`, the longest first; the last are summed up as other. */
export function shownStates(
  segments: readonly StateSegment[],
  window: TimeWindow,
): { state: ShownState; share: string }[] {
  const totals = new Map<ShownState, number>();
  for (const { state, width } of statesInWindow(segments, window)) totals.set(state, (totals.get(state) ?? 0) + width);
  const known = [...totals.values()].reduce((sum, width) => sum + width, 0);
  const sorted = [...totals].sort(([one, a], [other, b]) => Number(one === null) - Number(other === null) || b - a);
  const named = sorted.length <= MAX_NAMED ? sorted : sorted.slice(0, MAX_NAMED - 1);
  const rest = sorted.slice(named.length).reduce((sum, [, width]) => sum + width, 0);
  return [...named, ...(rest > 0 ? [[null, rest] as const] : [])].map(([state, width]) => ({
    state,
    share: shareText(width / known),
  }));
}

const shareText = (share: number): string => (share < 0.01 ? '<\u00a01\u00a0%' : `${Math.round(share * 100)}\u00a0%`);
