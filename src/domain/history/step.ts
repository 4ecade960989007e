import type { EpochMs, Milliseconds } from '../values.ts';
import { type RollupStep, rollupSteps } from './rollup.ts';
import { readStep } from './step-length.ts';

/** The steps that are chosen for a caller who names none, with their texts. */
const chosenSteps: readonly (readonly [string, Milliseconds])[] = [
  ...[
    '1s',
    '2s',
    '5s',
    '10s',
    '30s',
    '1m',
    '2m',
    '5m',
    '10m',
    '15m',
    '30m',
    '1h',
    '2h',
    '6h',
    '12h',
    '1d',
    '7d',
    '30d',
  ],
].map((text) => [text, readStep(text)] as const);

/** A chart has few more pixels than that. */
export const CHOSEN_POINTS = 1_000;

/**
 * The shortest step with at most `points` intervals between the two times. One below a minute needs samples: it is
 * chosen only if those of the whole range are retained.
 */
export function chooseStep(from: EpochMs, to: EpochMs, samplesFrom: EpochMs, points = CHOSEN_POINTS): string {
  const fits = ([, step]: readonly [string, Milliseconds]): boolean =>
    (to - from) / step <= points && (step >= rollupSteps['1m'] || from >= samplesFrom);
  return (chosenSteps.find(fits) ?? chosenSteps.at(-1) ?? ['30d'])[0];
}

const byLength = Object.entries(rollupSteps).sort(([, one], [, other]) => other - one) as [RollupStep, Milliseconds][];

/** The longest stored roll-up that divides `step`; null: samples are needed. */
export const rollupFor = (step: Milliseconds): RollupStep | null =>
  byLength.find(([, length]) => step % length === 0)?.[0] ?? null;
