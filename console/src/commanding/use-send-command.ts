import { useState } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { commandDevice } from '../../../src/operations/commands/commands.ts';
import type { Answer } from '../api/answer-types.ts';
import type { Problem } from '../api/problem.ts';
import { useChange } from '../api/queries.ts';

type Answered = Answer<typeof commandDevice>;
type Preview = Extract<Answered, { dry_run_token: string }>['preview'];

/** What was asked for and waits to be confirmed. */
export interface DryRun {
  action: string;
  params: JsonObject;
  token: string;
  commandId: string;
  expiresAt: string;
  reason: string;
  preview: Preview;
}

export interface CommandSender {
  busy: boolean;
  error: Problem | null;
  dryRun: DryRun | null;
  /** The id of the command that is on its way. */
  followed: string | null;
  send(action: string, params: JsonObject, preview: boolean): void;
  dismissDryRun(): void;
  track(commandId: string): void;
}

/** Asks for a command; a critical one is answered with what it would do, as a refusal with 409. */
export function useSendCommand(deviceId: string): CommandSender {
  const change = useChange<Answered>([`/v1/device/${deviceId}/commands`, '/v1/confirmations']);
  const [dryRun, setDryRun] = useState<DryRun | null>(null);
  const [followed, setFollowed] = useState<string | null>(null);
  const [error, setError] = useState<Problem | null>(null);
  return {
    ...{ busy: change.isPending, error, dryRun, followed },
    send(action, params, preview) {
      setError(null);
      setFollowed(null);
      const take = (answer: Answered): void => {
        if ('success' in answer) {
          setFollowed(answer.command_id);
          return;
        }
        const { dry_run_token: token, command_id: commandId, expires_at: expiresAt, reason } = answer;
        setDryRun({ action, params, token, commandId, expiresAt, reason, preview: answer.preview });
      };
      change.mutate(
        {
          method: 'POST',
          path: `/v1/device/${deviceId}/command`,
          body: { action, params, ...(preview && { dry_run: true }) },
        },
        {
          onSuccess: take,
          onError(problem) {
            if (problem.code === 'DRY_RUN_REQUIRED') take(problem.body as Answered);
            else setError(problem);
          },
        },
      );
    },
    dismissDryRun: () => setDryRun(null),
    track(commandId) {
      setDryRun(null);
      setFollowed(commandId);
    },
  };
}
