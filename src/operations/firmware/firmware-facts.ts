import type { GatewayFacts } from '../../domain/gateway.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { CommittedDevice } from '../devices/device-view.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// Gateway facts of `update_firmware`, from the firmware records; checked when the command is requested and when it is
// confirmed.

export const UPDATE_FIRMWARE = 'update_firmware';

/** The caller's release that an update requests, or null; null without a query for any other action. */
export async function findRequestedRelease(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  { action, params }: { action: string; params?: JsonObject | undefined },
): Promise<FirmwareRelease | null> {
  const id = action === UPDATE_FIRMWARE ? params?.firmware_id : undefined;
  return typeof id === 'string' && isUuid(id) ? store.firmware.find(tenantOf(caller), id.toLowerCase()) : null;
}

/** A device may get only a released version for its type; the service supplies the URL and checksum (contract §6). */
export function firmwareFacts(
  { artifacts }: Pick<Services, 'artifacts'>,
  { snapshot }: CommittedDevice,
  release: FirmwareRelease | null,
): Pick<GatewayFacts, 'objections' | 'supplement'> {
  if (release?.status !== 'released' || release.deviceType !== snapshot.context.fixed.deviceType) {
    return {
      objections: [
        { path: 'params.firmware_id', message: 'must be the id of a released firmware for this device type' },
      ],
    };
  }
  const { version, checksum } = release;
  return { supplement: { version, url: artifacts.urlOf(release), checksum } };
}
