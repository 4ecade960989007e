import { Link } from 'wouter';
import type { getPolicy } from '../../../src/operations/commands/safety-policy.ts';
import type { Answer } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { CommandEffect } from '../confirmations/command-effect.tsx';
import { type DeviceRecord, deviceNameOf } from '../devices/device-name.tsx';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Note } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Countdown } from '../ui/time.tsx';
import type { DryRun } from './use-send-command.ts';

interface ConfirmDryRunProps {
  device: DeviceRecord;
  dryRun: DryRun;
  onClose(): void;
  onConfirmed(commandId: string): void;
}

/** What a command would do, before it does it. */
export function ConfirmDryRun({ device, dryRun, onClose: close, onConfirmed }: ConfirmDryRunProps) {
  const { may } = useSession();
  const policy = useGet<Answer<typeof getPolicy>>('/v1/tenant/policy', { enabled: may('admin') });
  const stale = [`/v1/device/${device.id}/commands`, `/v1/commands/${dryRun.commandId}`, '/v1/confirmations'];
  const confirm = useChange(stale);
  const cancel = useChange(stale);
  const forAnother = policy.data?.policy.confirm_by === 'another_principal';
  const over = Date.parse(dryRun.expiresAt) <= useNow() && confirm.isIdle && cancel.isIdle;
  const verb = sentenceCase(dryRun.action);
  return (
    <Dialog title={`${verb}: ${deviceNameOf(device)}?`} onClose={close}>
      <p>{dryRun.reason}</p>
      <CommandEffect of={{ ...dryRun, device_id: device.id }} />
      {over ? (
        <Note tone="warn">It expired before it was confirmed, and was not sent. Close this, and ask for it again.</Note>
      ) : (
        <p className="quiet small">
          {forAnother
            ? 'The policy wants somebody else to approve it. It waits for them in '
            : 'Until it is confirmed it waits in '}
          <Link href="/confirmations">the confirmations</Link>, and expires <Countdown until={dryRun.expiresAt} />.
        </p>
      )}
      <ChangeError error={confirm.error ?? cancel.error} />
      <div className="actions">
        <button
          type="button"
          className="button danger"
          disabled={over || cancel.isPending}
          onClick={() =>
            cancel.mutate(
              { method: 'POST', path: `/v1/commands/${dryRun.commandId}/cancel`, body: {} },
              { onSuccess: close },
            )
          }
        >
          Cancel it
        </button>
        <button type="button" className="button" onClick={() => (over ? close() : onConfirmed(dryRun.commandId))}>
          {over ? 'Close' : 'Let it wait'}
        </button>
        <button
          type="button"
          className="button primary"
          disabled={over || forAnother || confirm.isPending}
          onClick={() =>
            confirm.mutate(
              {
                method: 'POST',
                path: `/v1/device/${device.id}/command/confirm`,
                body: { dry_run_token: dryRun.token },
              },
              { onSuccess: () => onConfirmed(dryRun.commandId) },
            )
          }
        >
          Confirm: {verb.toLowerCase()}
        </button>
      </div>
    </Dialog>
  );
}
