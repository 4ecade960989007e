import { expect, it } from 'vitest';
import { mayDecideOn, sameEmail } from '../../src/domain/membership.ts';
import { roles } from '../../src/domain/roles.ts';

it('an admin decides up to the role admin, an owner on every role, other roles on none', () => {
  const allowed = roles.flatMap((actor) =>
    roles.filter((role) => mayDecideOn(actor, role)).map((role) => `${actor} ${role}`),
  );
  expect(allowed).toEqual([
    ...['none', 'viewer', 'user', 'admin'].map((role) => `admin ${role}`),
    ...['none', 'viewer', 'user', 'admin', 'owner'].map((role) => `owner ${role}`),
  ]);
});

it.each([
  ['bea@example.com', 'BEA@Example.COM', true],
  ['bea@example.com', 'bea@example.org', false],
  ['kim@example.com', '\u212aim@example.com', false],
  ['bea@example.com', ' bea@example.com', false],
  ['b\u00e9a@example.com', 'B\u00c9A@example.com', false],
  ['b\u00e9a@example.com', 'be\u0301a@example.com', false],
])('%j and %j are the same address: %j', (a, b, same) => {
  expect([sameEmail(a, b), sameEmail(b, a)]).toEqual([same, same]);
});
