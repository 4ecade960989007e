import type { ZodType } from 'zod';
import type { ConfirmedOperation } from '../../domain/change-request.ts';
import { updatePolicy } from '../commands/safety-policy.ts';
import { reinstateDevice, revokeDevice, rotateSecret } from '../devices/device-keys.ts';
import { registerManifest, updateManifest } from '../devices/manifests.ts';
import { releaseFirmware } from '../firmware/firmware.ts';
import { addFirmwareKey, setFirmwareSigning } from '../firmware/firmware-signing.ts';
import type { Operation } from '../operation.ts';

/** The services that confirmable operations need, for the operations that run them after a confirmation. */
export const confirmableNeeds = [
  ...(['actors', 'agentTokens', 'artifacts', 'audit', 'clock', 'flags', 'locks', 'log', 'manifests', 'newId'] as const),
  ...(['seal', 'settings', 'store'] as const),
] as const;

export type ConfirmableOperation = Operation<ZodType, ZodType, (typeof confirmableNeeds)[number]>;

/** The operations that call `applyOrRequest`, by name. */
export const confirmableOperations: Readonly<Record<ConfirmedOperation, ConfirmableOperation>> = {
  registerManifest,
  updateManifest,
  updatePolicy,
  rotateSecret,
  reinstateDevice,
  revokeDevice,
  releaseFirmware,
  setFirmwareSigning,
  addFirmwareKey,
};
