import type { ZodType } from 'zod';
import type { ChangeRequest, ConfirmedOperation } from '../../domain/change-request.ts';
import { allowsScope, type NeededScope, type Scope } from '../../domain/scopes.ts';
import { updatePolicy } from '../commands/safety-policy.ts';
import { updateCa } from '../device-cas/device-cas.ts';
import { bindCertificate } from '../device-cas/device-certificates.ts';
import { reinstateDevice, revokeDevice, rotateSecret } from '../devices/device-keys.ts';
import { registerManifest, updateManifest } from '../devices/manifests.ts';
import { releaseFirmware } from '../firmware/firmware.ts';
import { addFirmwareKey, setFirmwareSigning } from '../firmware/firmware-signing.ts';
import type { Operation } from '../operation.ts';

/** The services that confirmable operations need, for the operations that run them after a confirmation. */
export const confirmableNeeds = [
  ...([
    'actors',
    'agentTokens',
    'artifacts',
    'audit',
    'clock',
    'flags',
    'invalidations',
    'locks',
    'log',
    'manifests',
  ] as const),
  ...(['newId', 'seal', 'settings', 'store', 'users'] as const),
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
  bindCertificate,
  updateCa,
  releaseFirmware,
  setFirmwareSigning,
  addFirmwareKey,
};

/** The scope with which the subject of each operation is read: a change request shows it. */
const readScopes: Readonly<Record<ConfirmedOperation, NeededScope>> = {
  registerManifest: 'read:manifests',
  updateManifest: 'read:manifests',
  updatePolicy: 'read:tenant',
  rotateSecret: 'read:devices',
  reinstateDevice: 'read:devices',
  revokeDevice: 'read:devices',
  bindCertificate: 'read:devices',
  updateCa: 'read:devices',
  releaseFirmware: 'read:firmware',
  setFirmwareSigning: 'read:firmware',
  addFirmwareKey: 'read:firmware',
};

/** Whether a credential with these scopes may read the subject. An operation of another version needs all scopes. */
export function mayReadChange(
  { operation }: Pick<ChangeRequest, 'operation'>,
  scopes: readonly Scope[] | null,
): boolean {
  const needed = (readScopes as Readonly<Record<string, NeededScope>>)[operation];
  return needed === undefined ? scopes === null : allowsScope(scopes, needed);
}
