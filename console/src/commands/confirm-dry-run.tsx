import { useState } from 'react';
import { useChange } from '../api/queries.ts';
import { CommandEffect } from '../confirmations/command-effect.tsx';
import { ConfirmationDialog } from '../confirmations/confirmation-dialog.tsx';
import { changedPreviewIn, PreviewChangedNote, type ShownPreview } from '../confirmations/preview-changed.tsx';
import { type DeviceRecord, deviceNameOf } from '../devices/device-name.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import type { PendingDryRun } from './use-send-command.ts';

interface ConfirmDryRunProps {
  device: DeviceRecord;
  dryRun: PendingDryRun;
  onClose(): void;
  onConfirmed(commandId: string): void;
}

/** Dialog with the effect of a dry run, to confirm or cancel the command. */
export function ConfirmDryRun({ device, dryRun, onClose: close, onConfirmed }: ConfirmDryRunProps) {
  const stale = [`/v1/device/${device.id}/commands`, `/v1/commands/${dryRun.commandId}`, '/v1/confirmations'];
  const confirm = useChange(stale);
  const cancel = useChange(stale);
  const [renewed, setRenewed] = useState<ShownPreview | null>(null);
  const changed = changedPreviewIn(confirm.error);
  const verb = sentenceCase(dryRun.action);
  const finish = () => onConfirmed(dryRun.commandId);
  return (
    <ConfirmationDialog
      title={`${verb}: ${deviceNameOf(device)}?`}
      noun="command"
      isPreview={dryRun.isPreview}
      reason={dryRun.reason}
      expiresAt={dryRun.expiresAt}
      expiredText="The confirmation expired and the command was not sent. Close this dialog and send the command again."
      confirmLabel={`Confirm: ${verb.toLowerCase()}`}
      confirm={confirm}
      cancel={cancel}
      error={(changed === null ? confirm.error : null) ?? cancel.error}
      onClose={close}
      onLater={finish}
      onCancel={() =>
        cancel.mutate(
          { method: 'POST', path: `/v1/commands/${dryRun.commandId}/cancel`, body: {} },
          { onSuccess: close },
        )
      }
      onConfirm={() =>
        confirm.mutate(
          {
            method: 'POST',
            path: `/v1/device/${device.id}/command/confirm`,
            body: { dry_run_token: dryRun.token, ...(renewed && { preview_hash: renewed.preview_hash }) },
          },
          { onSuccess: finish, onError: (problem) => setRenewed(changedPreviewIn(problem) ?? renewed) },
        )
      }
    >
      <CommandEffect of={{ ...dryRun, preview: renewed?.preview ?? dryRun.preview, device_id: device.id }} />
      {changed !== null && <PreviewChangedNote />}
    </ConfirmationDialog>
  );
}
