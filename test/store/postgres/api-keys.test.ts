import { expect, it } from 'vitest';
import { matchesHash, newApiKey } from '../../../src/domain/api-key.ts';
import type { KeyRestriction } from '../../../src/domain/key-restriction.ts';
import type { ApiKey } from '../../../src/store/contract.ts';
import { apiKeyStore } from '../../../src/store/postgres/api-keys.ts';

/** The values of the columns `hash` and `restriction` that are written, and the key that is read from such a row. */
async function stored(restriction: KeyRestriction | null) {
  const { key, prefix, hash } = newApiKey();
  let row = {};
  const keys = apiKeyStore({
    write: async ({ values }: { values: unknown[] }) => {
      row = { hash: values[4], restriction: restriction && JSON.parse(`${values[11]}`) };
      return [];
    },
    read: async () => [row],
  } as never);
  await keys.insert({ prefix, hash, scopes: [], restriction } as unknown as ApiKey);
  return { key, hash, written: (row as { hash: string }).hash, read: await keys.find(prefix) };
}

it('the stored hash of a restricted key matches no text, so that a build without restrictions refuses the key', async () => {
  const restriction = { rooms: ['living'], actions: ['turn_on'] };
  const { key, hash, written, read } = await stored(restriction);
  expect(matchesHash(key, written)).toBe(false);
  expect([read?.hash, read?.restriction]).toEqual([hash, restriction]);
  expect(matchesHash(key, `${read?.hash}`)).toBe(true);
});

it('the stored hash of another key is as before', async () => {
  const { key, hash, written, read } = await stored(null);
  expect([matchesHash(key, written), read?.hash, read?.restriction]).toEqual([true, hash, null]);
});
