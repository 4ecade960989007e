import type { Milliseconds } from '../values.ts';

// In a module without compression, because the console uses it.

const units: Readonly<Record<string, Milliseconds>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** An interval as `15m`: a number of seconds, minutes, hours or days. */
const stepPattern = /^([1-9]\d{0,4})([smhd])$/;

export function readStep(text: string): Milliseconds {
  const [, count, unit] = stepPattern.exec(text) ?? [];
  const length = units[unit ?? ''];
  if (count === undefined || length === undefined) throw new Error(`not a step: ${text}`);
  return Number(count) * length;
}
