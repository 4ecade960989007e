import { lazy, Suspense, useEffect, useState } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { getDevice } from '../../../src/operations/devices/devices.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { ConfirmDryRun } from '../commands/confirm-dry-run.tsx';
import { givenParams, missingSchemaOf } from '../commands/form-schema.ts';
import { StatusPill } from '../commands/status.tsx';
import { useCommand } from '../commands/use-command.ts';
import { type CommandSender, useSendCommand } from '../commands/use-send-command.ts';
import { type DeviceRecord, deviceNameOf } from '../devices/device-name.tsx';
import { type CapabilityRecord, type ManifestRecord, manifestPath } from '../devices/manifest.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Loading } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { formatValue } from '../ui/values.tsx';
import type { TileOf } from './dashboard-types.ts';
import { MissingNote } from './missing-note.tsx';

// The form library is loaded on demand.
const ParamForm = lazy(async () => ({ default: (await import('../commands/param-form.tsx')).ParamForm }));

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

function CommandButton({ tile: { action, params: stored = {} }, device, isOffline }: CommandButtonProps) {
  const sender = useSendCommand(device.id);
  const manifest = useGet<ManifestRecord>(manifestPath(device.id));
  const [isAsking, setAsking] = useState(false);
  const capability = manifest.data?.capabilities.find((one) => one.action === action);
  const params = capability === undefined ? stored : givenParams(capability.paramSchema, stored);
  const missing = capability === undefined ? null : missingSchemaOf(capability.paramSchema, params);
  // The action and the device are always shown: a title can be misleading.
  const what = `${sentenceCase(action)}${Object.keys(params).length === 0 ? '' : `: ${formatValue(params)}`}`;
  return (
    <>
      <button
        type="button"
        className="button primary tile-button"
        // The manifest decides whether a form is needed. A device without one refuses the command.
        disabled={sender.busy || isOffline || manifest.isPending}
        onClick={() => (missing === null ? sender.send(action, params, false) : setAsking(true))}
      >
        {missing === null ? what : `${what} …`}
      </button>
      <p className="quiet small">
        {deviceNameOf(device)}
        {!device.online && ' · offline'}
        {sender.trackedCommandId !== null && (
          <SentStatus key={sender.trackedCommandId} id={sender.trackedCommandId} device={device} />
        )}
      </p>
      {!isAsking && <ChangeError error={sender.error} />}
      {isAsking && capability !== undefined && missing !== null && (
        <ParamDialog
          title={`${what}: ${deviceNameOf(device)}`}
          capability={{ ...capability, paramSchema: missing }}
          {...{ device, params, sender }}
          onClose={() => setAsking(false)}
        />
      )}
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

interface ParamDialogProps {
  title: string;
  /** With the schema of the missing parameters. */
  capability: CapabilityRecord;
  device: DeviceRecord;
  /** Those that the tile has. */
  params: JsonObject;
  sender: CommandSender;
  onClose(): void;
}

/** Form for the parameters that the tile leaves open. Closed when the command was accepted or waits for its confirmation. */
function ParamDialog({ title, capability, device, params, sender, onClose: close }: ParamDialogProps) {
  const [shown] = useState({ capability, commandId: sender.trackedCommandId });
  const isSent = sender.dryRun !== null || (sender.trackedCommandId ?? shown.commandId) !== shown.commandId;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once it was sent
  useEffect(() => {
    if (isSent) close();
  }, [isSent]);
  return (
    <Dialog title={title} onClose={close}>
      <Suspense fallback={<Loading what="Loading form" />}>
        <ParamForm
          capability={shown.capability}
          device={device}
          busy={sender.busy}
          send={(given, preview) => sender.send(capability.action, { ...params, ...given }, preview)}
          onCancel={close}
        />
      </Suspense>
      <ChangeError error={sender.error} />
    </Dialog>
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
