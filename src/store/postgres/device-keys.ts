import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { StoredDeviceKey } from '../contract.ts';
import { type Database, idArray } from './database.ts';

interface KeyRow {
  device_id: Uuid;
  key_version: number;
  signing_alg: StoredDeviceKey['signingAlg'];
  sealed_secret: string | null;
  public_key: string | null;
  created_at: EpochMs;
  grace_until: EpochMs | null;
  last_used_at: EpochMs | null;
  ended_at: EpochMs | null;
  ended_as: 'retired' | 'revoked' | null;
}

const columns = `device_id, key_version, signing_alg, sealed_secret, public_key, created_at, grace_until, last_used_at,
  ended_at, ended_as`;

const storedKey = (row: KeyRow): StoredDeviceKey => ({
  keyVersion: row.key_version,
  signingAlg: row.signing_alg,
  sealedSecret: row.sealed_secret,
  publicKey: row.public_key,
  createdAt: row.created_at,
  graceUntil: row.grace_until,
  lastUsedAt: row.last_used_at,
  endedAt: row.ended_at,
  status: row.ended_as ?? (row.grace_until === null ? 'active' : 'grace'),
});

/** Newest first. Callers check by their own clock whether a grace period has ended. */
export async function validKeys(database: Database, ids: readonly Uuid[]): Promise<Map<Uuid, StoredDeviceKey[]>> {
  const keys = new Map<Uuid, StoredDeviceKey[]>();
  if (ids.length === 0) return keys;
  const rows = await database.read<KeyRow>({
    name: 'device_keys_live',
    text: `select ${columns} from device_keys where device_id = any($1::uuid[]) and ended_at is null
      order by key_version desc`,
    values: [idArray(ids)],
  });
  for (const row of rows) {
    const known = keys.get(row.device_id);
    if (known) known.push(storedKey(row));
    else keys.set(row.device_id, [storedKey(row)]);
  }
  return keys;
}

/** All keys of a device, including ended ones, newest first. */
export async function keyHistoryOf(database: Database, deviceId: Uuid): Promise<StoredDeviceKey[]> {
  const rows = await database.read<KeyRow>({
    name: 'keys_of',
    text: `select ${columns} from device_keys where device_id = $1 order by key_version desc`,
    values: [deviceId],
  });
  return rows.map(storedKey);
}
