import { expect, it } from 'vitest';
import { fromLocalInput, toLocalInput } from '../../../console/src/ui/local-time.ts';

it('a time of an input is in the zone of the browser', () => {
  const iso = new Date(2026, 2, 1, 12, 30).toISOString();
  expect(toLocalInput(iso)).toBe('2026-03-01T12:30');
  expect(fromLocalInput('2026-03-01T12:30')).toBe(iso);
  expect([toLocalInput(null), fromLocalInput('')]).toEqual(['', '']);
});
