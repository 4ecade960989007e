import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { makeUrlSigner } from '../../src/domain/signed-url.ts';

const [one, two] = [randomBytes(32), randomBytes(32)];
const parts = (query: string) => {
  const read = new URLSearchParams(query);
  return [Number(read.get('expires')), read.get('signature') ?? ''] as const;
};

it('a signed path verifies only with its own time', () => {
  const signer = makeUrlSigner({ current: one });
  const [expires, signature] = parts(signer.query('/a', 5));
  expect(expires).toBe(5);
  expect(signer.verifies('/a', 5, signature)).toBe(true);
  expect(signer.verifies('/b', 5, signature)).toBe(false);
  expect(signer.verifies('/a', 6, signature)).toBe(false);
});

it('a path signed with another master key, truncated or invented does not verify', () => {
  const [, signature] = parts(makeUrlSigner({ current: one }).query('/a', 5));
  expect(makeUrlSigner({ current: two }).verifies('/a', 5, signature)).toBe(false);
  for (const wrong of ['', signature.slice(0, -2), `${signature}AA`, 'é', signature.toUpperCase()]) {
    expect(makeUrlSigner({ current: one }).verifies('/a', 5, wrong)).toBe(false);
  }
});

it('old URLs remain valid after a rotation of the master key, and those of nodes that have rotated before', () => {
  const [, signature] = parts(makeUrlSigner({ current: one }).query('/a', 5));
  expect(makeUrlSigner({ current: two, previous: one }).verifies('/a', 5, signature)).toBe(true);
  expect(makeUrlSigner({ current: two, next: one }).verifies('/a', 5, signature)).toBe(true);
  expect(makeUrlSigner({ current: two, next: one }).query('/a', 5)).toBe(
    makeUrlSigner({ current: two }).query('/a', 5),
  );
});
