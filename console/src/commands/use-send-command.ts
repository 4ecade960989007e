import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { commandDevice } from '../../../src/operations/commands/commands.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import type { Problem } from '../api/problem.ts';
import { invalidatePaths, useChange } from '../api/queries.ts';
import { manifestPath } from '../devices/manifest.tsx';

type CommandResult = ResponseBody<typeof commandDevice>;
type Preview = Extract<CommandResult, { dry_run_token: string }>['preview'];

/** A command that is waiting for confirmation. */
export interface PendingDryRun {
  action: string;
  params: JsonObject;
  /** Only a preview was requested: the command is not in the inbox. */
  isPreview: boolean;
  token: string;
  commandId: string;
  expiresAt: string;
  reason: string;
  preview: Preview;
}

export interface CommandSender {
  busy: boolean;
  error: Problem | null;
  dryRun: PendingDryRun | null;
  /** ID of the command whose progress is shown. */
  trackedCommandId: string | null;
  send(action: string, params: JsonObject, preview: boolean): void;
  dismissDryRun(): void;
  track(commandId: string): void;
}

/** Sends commands. A critical command is answered with 409 and its dry run. */
export function useSendCommand(deviceId: string): CommandSender {
  const change = useChange<CommandResult>([`/v1/device/${deviceId}/commands`, '/v1/confirmations']);
  const queries = useQueryClient();
  const [dryRun, setDryRun] = useState<PendingDryRun | null>(null);
  const [trackedCommandId, setTrackedCommandId] = useState<string | null>(null);
  const [error, setError] = useState<Problem | null>(null);
  return {
    ...{ busy: change.isPending, error, dryRun, trackedCommandId },
    send(action, params, preview) {
      setError(null);
      setTrackedCommandId(null);
      const showResult = (answer: CommandResult): void => {
        if ('success' in answer) {
          setTrackedCommandId(answer.command_id);
          return;
        }
        const { dry_run_token: token, command_id: commandId, expires_at: expiresAt, reason } = answer;
        setDryRun({ action, params, isPreview: preview, token, commandId, expiresAt, reason, preview: answer.preview });
      };
      change.mutate(
        {
          method: 'POST',
          path: `/v1/device/${deviceId}/command`,
          body: { action, params, ...(preview && { dry_run: true }) },
        },
        {
          onSuccess: showResult,
          onError(problem) {
            if (problem.code === 'DRY_RUN_REQUIRED') showResult(problem.body as CommandResult);
            else {
              setError(problem);
              // The form was made from a manifest that may have changed.
              void invalidatePaths(queries, [manifestPath(deviceId)]);
            }
          },
        },
      );
    },
    dismissDryRun: () => setDryRun(null),
    track(commandId) {
      setDryRun(null);
      setTrackedCommandId(commandId);
    },
  };
}
