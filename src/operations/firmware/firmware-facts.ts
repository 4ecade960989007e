import { isSignedAsRequired } from '../../domain/firmware-signing.ts';
import { UPDATE_FIRMWARE } from '../../domain/firmware-verification.ts';
import type { GatewayFacts } from '../../domain/gateway.ts';
import type { FirmwarePreview } from '../../domain/twin.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { CommittedDevice } from '../devices/device-view.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// Gateway facts of `update_firmware`, from the firmware records; checked when the command is requested and when it is
// confirmed.

/** A release, and whether it has the signature that its tenant requires. */
export interface RequestedRelease extends FirmwareRelease {
  signedAsRequired: boolean;
}

/** The caller's release that an update requests, or null; null without a query for any other action. */
export async function findRequestedRelease(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  { action, params }: { action: string; params?: JsonObject | undefined },
): Promise<RequestedRelease | null> {
  const id = action === UPDATE_FIRMWARE ? params?.firmware_id : undefined;
  if (typeof id !== 'string' || !isUuid(id)) return null;
  const release = await store.firmware.find(tenantOf(caller), id.toLowerCase());
  if (release === null) return null;
  return {
    ...release,
    signedAsRequired: isSignedAsRequired(await store.firmwareSigning.find(release.tenantId), release),
  };
}

/** A device may get only a released version for its type; the service supplies the URL, checksum and signature (contract §6). */
export function firmwareFacts(
  { artifacts }: Pick<Services, 'artifacts'>,
  { snapshot }: CommittedDevice,
  release: RequestedRelease | null,
): Pick<GatewayFacts, 'objections' | 'supplement'> {
  if (release?.status !== 'released' || release.deviceType !== snapshot.context.fixed.deviceType) {
    return {
      objections: [
        { path: 'params.firmware_id', message: 'must be the id of a released firmware for this device type' },
      ],
    };
  }
  if (!release.signedAsRequired) {
    return {
      objections: [{ path: 'params.firmware_id', message: 'must be the id of a firmware with a valid signature' }],
    };
  }
  const { version, checksum } = release;
  return { supplement: { version, url: artifacts.urlOf(release), checksum, ...signatureOf(release) } };
}

/** What a device needs to check the signature, besides what it gets of every release; nothing without a verified signature. */
export const signatureOf = ({ size, signature, signatureKeyId }: FirmwareRelease) =>
  signature === null || signatureKeyId === null || size === null ? {} : { size, signature, key_id: signatureKeyId };

/** The release in the preview of an update. */
export function firmwarePreview({ artifacts }: Pick<Services, 'artifacts'>, release: FirmwareRelease): FirmwarePreview {
  const { version, checksum, releasedBy } = release;
  const url = artifacts.urlOf(release);
  return { version, url_host: url === null ? null : new URL(url).host, checksum, released_by: releasedBy };
}
