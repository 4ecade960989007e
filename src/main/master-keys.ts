import { ConfigError } from '../config/setting-readers.ts';
import type { Config } from '../config.ts';
import { keyId, type MasterKeys } from '../domain/sealing.ts';
import type { SealedCount } from '../store/contract/sealed-values.ts';

/** The bytes of the configured master keys. */
export const masterKeysOf = ({ master, masterNext, masterPrevious }: Config['keys']): MasterKeys => ({
  current: master.export(),
  next: masterNext?.export(),
  previous: masterPrevious?.export(),
});

const kinds = {
  device_secrets: 'device secrets',
  stored_answers: 'stored answers',
  command_parameters: 'parameters of waiting commands',
} as const;

/** Counts the stored secrets that name a master key other than `known`. */
type CountOthers = (known: readonly string[]) => Promise<readonly SealedCount[]>;

/**
 * A `ConfigError` if stored secrets name a master key that is neither configured nor declared lost: their devices could
 * not sign in. Null if there are none.
 */
export async function masterKeyProblem(countOthers: CountOthers, keys: Config['keys']): Promise<ConfigError | null> {
  const { current, next, previous } = masterKeysOf(keys);
  const known = [current, next, previous].flatMap((key) => (key === undefined ? [] : [keyId(key)]));
  const missing = await countOthers([...known, ...keys.masterLost]);
  if (missing.length === 0) return null;
  const variable = keys.masterPrevious === null ? 'MASTER_KEY_PREVIOUS' : 'MASTER_KEY';
  return new ConfigError(variable, problemOf(missing, keyId(current), previous && keyId(previous)));
}

/** Throws `masterKeyProblem`. */
export async function checkMasterKeys(countOthers: CountOthers, keys: Config['keys']): Promise<void> {
  const problem = await masterKeyProblem(countOthers, keys);
  if (problem !== null) throw problem;
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
