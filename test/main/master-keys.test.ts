import { createSecretKey, randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { keyId } from '../../src/domain/sealing.ts';
import { checkMasterKeys } from '../../src/main/master-keys.ts';
import type { SealedCount } from '../../src/store/contract/sealed-values.ts';

const [current, previous] = [randomBytes(32), randomBytes(32)];
const LOST = 'x9Q2pWz7KdE';

/** Reports the rows of keys that are not known. */
function check(rows: SealedCount[], more: { previous?: boolean; lost?: string[] } = {}): Promise<void> {
  const keys = {
    ...{ master: createSecretKey(current), masterNext: null, masterLost: more.lost ?? [] },
    masterPrevious: more.previous ? createSecretKey(previous) : null,
  };
  return checkMasterKeys(async (known) => rows.filter((row) => !known.includes(row.keyId)), keys as never);
}
const rows = (id: string, count = 12): SealedCount[] => [{ kind: 'device_secrets', keyId: id, rows: count }];

it('a start is refused while secrets name a key that is not configured, and the problem names keys, rows and variable', async () => {
  await expect(check([...rows(LOST), { kind: 'stored_answers', keyId: LOST, rows: 3 }])).rejects.toThrow(
    `MASTER_KEY_PREVIOUS does not fit the database, which has secrets that are encrypted with the master key ${LOST} ` +
      `(12 device secrets and 3 stored answers): MASTER_KEY is the key ${keyId(current)}. Set the missing key as ` +
      'MASTER_KEY_PREVIOUS and run twinkeep rekey.',
  );
});

it('a start is refused with a previous key that is not the missing one', async () => {
  await expect(check(rows(LOST), { previous: true })).rejects.toThrow(
    `MASTER_KEY is the key ${keyId(current)} and MASTER_KEY_PREVIOUS is ${keyId(previous)}.`,
  );
});

it('a start is accepted with all keys, and with keys that are declared lost', async () => {
  await check([...rows(keyId(current)), ...rows(keyId(previous))], { previous: true });
  await check(rows(LOST), { lost: [LOST] });
});
