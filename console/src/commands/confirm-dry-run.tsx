import { useState } from 'react';
import { Link } from 'wouter';
import type { getPolicy } from '../../../src/operations/commands/safety-policy.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { CommandEffect } from '../confirmations/command-effect.tsx';
import { changedPreviewIn, PreviewChangedNote, type ShownPreview } from '../confirmations/preview-changed.tsx';
import { type DeviceRecord, deviceNameOf } from '../devices/device-name.tsx';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Note } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Countdown } from '../ui/time.tsx';
import type { PendingDryRun } from './use-send-command.ts';

interface ConfirmDryRunProps {
  device: DeviceRecord;
  dryRun: PendingDryRun;
  onClose(): void;
  onConfirmed(commandId: string): void;
}

/** Dialog with the effect of a dry run, to confirm or cancel the command. */
export function ConfirmDryRun({ device, dryRun, onClose: close, onConfirmed }: ConfirmDryRunProps) {
  const { may } = useSession();
  const policy = useGet<ResponseBody<typeof getPolicy>>('/v1/tenant/policy', { enabled: may('admin') });
  const stale = [`/v1/device/${device.id}/commands`, `/v1/commands/${dryRun.commandId}`, '/v1/confirmations'];
  const confirm = useChange(stale);
  const cancel = useChange(stale);
  const [renewed, setRenewed] = useState<ShownPreview | null>(null);
  const changed = changedPreviewIn(confirm.error);
  const needsAnother = policy.data?.policy.confirm_by === 'another_principal';
  const isExpired = Date.parse(dryRun.expiresAt) <= useNow() && confirm.isIdle && cancel.isIdle;
  const verb = sentenceCase(dryRun.action);
  return (
    <Dialog title={`${verb}: ${deviceNameOf(device)}?`} onClose={close}>
      <p>{dryRun.reason}</p>
      <CommandEffect of={{ ...dryRun, preview: renewed?.preview ?? dryRun.preview, device_id: device.id }} />
      {changed !== null && <PreviewChangedNote />}
      {isExpired ? (
        <Note tone="warn">
          The confirmation expired and the command was not sent. Close this dialog and send the command again.
        </Note>
      ) : (
        <p className="quiet small">
          {needsAnother
            ? 'The policy requires confirmation by another person. Until then the command is listed under '
            : 'Until it is confirmed the command is listed under '}
          <Link href="/confirmations">Confirmations</Link>. It expires <Countdown until={dryRun.expiresAt} />.
        </p>
      )}
      <ChangeError error={(changed === null ? confirm.error : null) ?? cancel.error} />
      <div className="actions">
        <button
          type="button"
          className="button danger"
          disabled={isExpired || cancel.isPending}
          onClick={() =>
            cancel.mutate(
              { method: 'POST', path: `/v1/commands/${dryRun.commandId}/cancel`, body: {} },
              { onSuccess: close },
            )
          }
        >
          Cancel command
        </button>
        <button type="button" className="button" onClick={() => (isExpired ? close() : onConfirmed(dryRun.commandId))}>
          {isExpired ? 'Close' : 'Decide later'}
        </button>
        <button
          type="button"
          className="button primary"
          disabled={isExpired || needsAnother || confirm.isPending}
          onClick={() =>
            confirm.mutate(
              {
                method: 'POST',
                path: `/v1/device/${device.id}/command/confirm`,
                body: { dry_run_token: dryRun.token, ...(renewed && { preview_hash: renewed.preview_hash }) },
              },
              {
                onSuccess: () => onConfirmed(dryRun.commandId),
                onError: (problem) => setRenewed(changedPreviewIn(problem) ?? renewed),
              },
            )
          }
        >
          Confirm: {verb.toLowerCase()}
        </button>
      </div>
    </Dialog>
  );
}
