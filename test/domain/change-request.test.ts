import { expect, it } from 'vitest';
import { type ChangeRequest, changeStatusOf } from '../../src/domain/change-request.ts';

it.each([
  ['awaiting_confirmation', 999, 'awaiting_confirmation'],
  ['awaiting_confirmation', 1_000, 'expired'],
  ['applied', 2_000, 'applied'],
  ['refused', 2_000, 'refused'],
  ['outdated', 2_000, 'outdated'],
] as const)('a change request that is %s is shown at %i as %s, with the deadline 1000', (status, now, expected) => {
  expect(changeStatusOf({ status, expiresAt: 1_000 } as ChangeRequest, now)).toBe(expected);
});
