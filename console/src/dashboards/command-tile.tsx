import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { ConfirmDryRun } from '../commands/confirm-dry-run.tsx';
import { StatusPill } from '../commands/status.tsx';
import { useCommand } from '../commands/use-command.ts';
import { useSendCommand } from '../commands/use-send-command.ts';
import { type DeviceRecord, deviceNameOf } from '../devices/device-name.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { formatValue } from '../ui/values.tsx';
import type { TileOf } from './dashboard-types.ts';
import { MissingNote } from './missing-note.tsx';

/** A button that requests a command, as the panel of the device does: a critical one is previewed and confirmed. */
export function CommandTile({ tile, isOffline }: { tile: TileOf<'command'>; isOffline: boolean }) {
  const { data, error } = useGet<ResponseBody<typeof getDevice>>(`/v1/devices/${tile.device_id}`);
  if (data === undefined || error?.status === 404) return <MissingNote problem={error} what="device" />;
  // Another person may change the tile: a dialog that is open has the device and the action that were requested.
  const key = JSON.stringify([tile.device_id, tile.action, tile.params]);
  return <CommandButton key={key} tile={tile} device={data.device} isOffline={isOffline} />;
}

interface CommandButtonProps {
  tile: TileOf<'command'>;
  device: DeviceRecord;
  isOffline: boolean;
}

function CommandButton({ tile: { action, params = {} }, device, isOffline }: CommandButtonProps) {
  const sender = useSendCommand(device.id);
  // The action and the device are always shown: a title can be misleading.
  const what = `${sentenceCase(action)}${Object.keys(params).length === 0 ? '' : `: ${formatValue(params)}`}`;
  return (
    <>
      <button
        type="button"
        className="button primary tile-button"
        disabled={sender.busy || isOffline}
        onClick={() => sender.send(action, params, false)}
      >
        {what}
      </button>
      <p className="quiet small">
        {deviceNameOf(device)}
        {!device.online && ' · offline'}
        {sender.trackedCommandId !== null && (
          <SentStatus key={sender.trackedCommandId} id={sender.trackedCommandId} device={device} />
        )}
      </p>
      <ChangeError error={sender.error} />
      {sender.dryRun !== null && (
        <ConfirmDryRun
          device={device}
          dryRun={sender.dryRun}
          onClose={sender.dismissDryRun}
          onConfirmed={sender.track}
        />
      )}
    </>
  );
}

function SentStatus({ id, device }: { id: string; device: DeviceRecord }) {
  const { data } = useCommand(id, device.id);
  return data === undefined ? null : (
    <>
      {' · '}
      <StatusPill status={data.command.status} />
    </>
  );
}
