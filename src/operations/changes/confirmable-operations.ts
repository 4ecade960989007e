import type { ZodType } from 'zod';
import type { ConfirmedOperation } from '../../domain/change-request.ts';
import type { JsonObject } from '../../domain/values.ts';
import { updatePolicy } from '../commands/safety-policy.ts';
import { reinstateDevice, revokeDevice, rotateSecret } from '../devices/device-keys.ts';
import { registerManifest, storedManifestBase, updateManifest } from '../devices/manifests.ts';
import { releaseFirmware } from '../firmware/firmware.ts';
import type { Operation, Services } from '../operation.ts';

/** The services that confirmable operations need, for the operations that run them after a confirmation. */
export const confirmableNeeds = [
  ...(['actors', 'agentTokens', 'artifacts', 'audit', 'clock', 'flags', 'locks', 'log', 'manifests', 'newId'] as const),
  ...(['seal', 'settings', 'store'] as const),
] as const;

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
const notCompared = async (): Promise<string> => '';

/** The operations that call `applyOrRequest`, by name. */
export const confirmableOperations: Readonly<Record<ConfirmedOperation, ConfirmableChange>> = {
  registerManifest: { operation: registerManifest, storedBase: storedManifestBase },
  updateManifest: { operation: updateManifest, storedBase: storedManifestBase },
  updatePolicy: { operation: updatePolicy, storedBase: notCompared },
  rotateSecret: { operation: rotateSecret, storedBase: notCompared },
  reinstateDevice: { operation: reinstateDevice, storedBase: notCompared },
  revokeDevice: { operation: revokeDevice, storedBase: notCompared },
  releaseFirmware: { operation: releaseFirmware, storedBase: notCompared },
};
