import { type Command, Option } from 'commander';
import { confirmers } from '../../domain/policy.ts';
import { receivedProblemOf } from '../api.ts';
import { parseDurationS } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import { FailedError, RefusedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printRecord } from '../print.ts';
import { type ChangeDryRun, isChangeDryRun, showChangeDryRun } from './change-requests.ts';

interface Policy {
  policy: { confirm_by: string; agent_confirm_by: string; confirm_ttl_s: number };
}

interface Changes {
  confirmBy?: string;
  agentConfirmBy?: string;
  confirmTtl?: number;
}

export function addPolicy(program: Command, io: Io): void {
  const policy = program
    .command('policy')
    .summary('show or change the safety policy')
    .description("The tenant's safety policy: which users may confirm critical commands, and for how long.");
  policy
    .command('show', { isDefault: true })
    .description('Shows the current policy.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<Policy>('/v1/tenant/policy'), (body) => printRecord(io, body.policy));
    });
  policy
    .command('set')
    .description(
      'Changes the policy. A stricter one applies at once, also to pending commands; a looser one has to be confirmed\n' +
        'first, and does not apply to pending commands. Requires an admin who is signed in; API keys are not accepted.',
    )
    .addOption(
      new Option(
        '--confirm-by <who>',
        'requester: any member with the role user, including the requester; another_principal: not the requester; person: no key or agent',
      ).choices(confirmers),
    )
    .addOption(
      new Option(
        '--agent-confirm-by <who>',
        'the same for what agents request or confirm, in addition to --confirm-by',
      ).choices(confirmers),
    )
    .option('--confirm-ttl <time>', 'time limit for a confirmation, 1m to 1d', parseDurationS)
    .addHelpText('after', '\nExample:\n  twinkeep policy set --confirm-by person --confirm-ttl 2m')
    .action(async (options: Changes, command: Command) => {
      const { confirmBy, agentConfirmBy, confirmTtl } = options;
      if (confirmBy === undefined && agentConfirmBy === undefined && confirmTtl === undefined)
        throw new UsageError('give --confirm-by, --agent-confirm-by or --confirm-ttl');
      const { api, show } = createCliContext(io, command);
      const { body } = await api.request<Policy | ChangeDryRun>('PATCH', '/v1/tenant/policy', {
        acceptStatuses: [409],
        body: {
          ...(confirmBy !== undefined && { confirm_by: confirmBy }),
          ...(agentConfirmBy !== undefined && { agent_confirm_by: agentConfirmBy }),
          ...(confirmTtl !== undefined && { confirm_ttl_s: confirmTtl }),
        },
      });
      if (isChangeDryRun(body)) {
        show(body, (dryRun) => showChangeDryRun(io, dryRun));
        throw new FailedError('the change has to be confirmed first');
      }
      if (!('policy' in body)) throw new RefusedError(receivedProblemOf(409, body));
      show(body, (changed) => printRecord(io, changed.policy));
    });
}
