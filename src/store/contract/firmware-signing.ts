import type { FirmwareKey, FirmwareSigning } from '../../domain/firmware-signing.ts';
import type { Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';

/** The keys that sign a tenant's firmware, and whether a signature is required. */
export interface FirmwareSigningStore {
  /** Not required and without keys for a tenant that has set neither. */
  find(tenantId: Uuid): Promise<FirmwareSigning>;
  /** Registers a key and requires signatures. False, and nothing is stored, if the key is registered or `most` keys are. */
  addKey(tenantId: Uuid, key: FirmwareKey, most: number, idempotency?: IdempotencyRow | null): Promise<boolean>;
  /** False if the key is not registered. */
  removeKey(tenantId: Uuid, keyId: string): Promise<boolean>;
  setRequired(tenantId: Uuid, required: boolean): Promise<void>;
}
