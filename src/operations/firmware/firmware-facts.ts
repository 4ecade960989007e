import type { GatewayFacts } from '../../domain/gateway.ts';
import type { JsonObject } from '../../domain/values.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { CommittedDevice } from '../devices/device-view.ts';
import { isUuid } from '../inputs.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';

// What records say of an `update_firmware`: the gateway judges by it, when the command is asked for and when it is confirmed.

export const UPDATE_FIRMWARE = 'update_firmware';

/** The caller's release that an update names, or null: for any other action, which asks the store for nothing, too. */
export async function findRequestedRelease(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  { action, params }: { action: string; params?: JsonObject | undefined },
): Promise<FirmwareRelease | null> {
  const id = action === UPDATE_FIRMWARE ? params?.firmware_id : undefined;
  return typeof id === 'string' && isUuid(id.toLowerCase())
    ? store.firmware.find(tenantOf(caller), id.toLowerCase())
    : null;
}

/** Only a released version for its own type may go to a device; what it fetches is for the service to say (contract §6). */
export function firmwareFacts(
  { artifacts }: Pick<Services, 'artifacts'>,
  { snapshot }: CommittedDevice,
  release: FirmwareRelease | null,
): Pick<GatewayFacts, 'objections' | 'supplement'> {
  if (release?.status !== 'released' || release.deviceType !== snapshot.context.deviceType) {
    return { objections: [{ path: 'params.firmware_id', message: 'names no released firmware of this device type' }] };
  }
  const { version, checksum } = release;
  return { supplement: { version, url: artifacts.urlOf(release), checksum } };
}
