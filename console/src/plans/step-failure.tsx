import type { getCommand } from '../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Value } from '../ui/values.tsx';
import type { StepRecord } from './plan-display.ts';

/** Why a step failed: the device's own reason, if it gave one and the user can read commands, and the plan's error. */
export function StepFailure({ step: { error, command_id } }: { step: StepRecord }) {
  const { may } = useSession();
  const { data } = useGet<ResponseBody<typeof getCommand>>(`/v1/commands/${command_id}`, {
    enabled: error !== undefined && command_id !== undefined && may('user'),
  });
  if (error === undefined) return null;
  const reason = data?.command.error;
  return (
    <>
      {reason !== undefined && reason !== null && (
        <p className="small what">
          The device: <Value of={reason} />
        </p>
      )}
      <p className="quiet small what">
        {error.detail} <code>{error.code}</code>
      </p>
    </>
  );
}
