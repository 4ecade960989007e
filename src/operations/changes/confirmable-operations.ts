import type { ZodType } from 'zod';
import type { JsonObject } from '../../domain/values.ts';
import { updatePolicy } from '../commands/safety-policy.ts';
import { registerManifest, storedManifestBase, updateManifest } from '../devices/manifests.ts';
import type { Operation, Services } from '../operation.ts';

/** The services that confirmable operations need, for the operations that run them after a confirmation. */
export const confirmableNeeds = ['actors', 'audit', 'clock', 'flags', 'locks', 'manifests', 'newId', 'store'] as const;

export type ConfirmableOperation = Operation<ZodType, ZodType, (typeof confirmableNeeds)[number]>;

export interface ConfirmableChange {
  operation: ConfirmableOperation;
  /**
   * The `base` (`ProposedChange.base`) that the change of this input has now, read from the store: actors and caches may be
   * behind it if another node has become the owner of the tenant.
   */
  storedBase(services: Pick<Services, 'store'>, input: JsonObject): Promise<string>;
}

/** Every conflict ends the request. */
const notCompared: ConfirmableChange['storedBase'] = async () => '';

/** The operations that call `applyOrRequest`, by name. */
export const confirmableOperations: Readonly<Record<string, ConfirmableChange>> = Object.fromEntries(
  [
    { operation: registerManifest, storedBase: storedManifestBase },
    { operation: updateManifest, storedBase: storedManifestBase },
    { operation: updatePolicy, storedBase: notCompared },
  ].map((one: ConfirmableChange) => [one.operation.name, one]),
);
