import { ConfigError } from '../config/setting-readers.ts';
import type { Config } from '../config.ts';
import { keyId, type MasterKeys } from '../domain/sealing.ts';
import type { EpochMs } from '../domain/values.ts';
import type { SealedCount } from '../store/contract/sealed-values.ts';
import type { Store } from '../store/contract.ts';

/** The bytes of the configured master keys. */
export const masterKeysOf = ({ master, masterNext, masterPrevious }: Config['keys']): MasterKeys => ({
  current: master.export(),
  next: masterNext?.export(),
  previous: masterPrevious?.export(),
});

const kinds = { device_secrets: 'device secrets', stored_answers: 'stored answers' } as const;

/**
 * Throws a `ConfigError` if stored secrets name a master key that is neither configured nor declared lost: their devices
 * could not sign in.
 */
export async function checkMasterKeys(
  { sealedValues }: Pick<Store, 'sealedValues'>,
  keys: Config['keys'],
  now: EpochMs,
): Promise<void> {
  const { current, next, previous } = masterKeysOf(keys);
  const known = [current, next, previous].flatMap((key) => (key === undefined ? [] : [keyId(key)]));
  const missing = await sealedValues.withOtherKeys([...known, ...keys.masterLost], now);
  if (missing.length === 0) return;
  const variable = keys.masterPrevious === null ? 'MASTER_KEY_PREVIOUS' : 'MASTER_KEY';
  throw new ConfigError(variable, problemOf(missing, keyId(current), previous && keyId(previous)));
}

function problemOf(missing: readonly SealedCount[], current: string, previous: string | undefined): string {
  const ids = [...new Set(missing.map((count) => count.keyId))];
  const rows = (id: string): string =>
    missing
      .filter((count) => count.keyId === id)
      .map((count) => `${count.rows} ${kinds[count.kind]}`)
      .join(' and ');
  const needed = ids.map((id) => `${id} (${rows(id)})`).join(', ');
  const configured =
    previous === undefined
      ? `MASTER_KEY is the key ${current}`
      : `MASTER_KEY is the key ${current} and MASTER_KEY_PREVIOUS is ${previous}`;
  return (
    `does not fit the database, which has secrets that are encrypted with the master key ${needed}: ${configured}. ` +
    'Set the missing key as MASTER_KEY_PREVIOUS and run twinkeep rekey. If it no longer exists, put its id into ' +
    'MASTER_KEYS_LOST and give these devices new secrets.'
  );
}
