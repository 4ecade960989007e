import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { ConfirmationListBody } from '../api/answer-types.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { WaitingChanges } from '../changes/waiting-changes.tsx';
import { CommandProgress } from '../commands/command-progress.tsx';
import { commandHref } from '../commands/status.tsx';
import { useCommand } from '../commands/use-command.ts';
import { DeviceName } from '../devices/device-name.tsx';
import { useStream } from '../live/use-stream.ts';
import { Requester } from '../people/requester.tsx';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Countdown, Time } from '../ui/time.tsx';
import { CommandEffect } from './command-effect.tsx';
import {
  Approve,
  type ConfirmationDecision,
  type ConfirmationState,
  DecisionButtons,
  Refuse,
} from './decision-dialogs.tsx';
import type { PendingConfirmation } from './pending-confirmation.ts';
import './inbox.css';

const LIST = '/v1/confirmations';

/** Inbox of pending confirmations. */
export function ConfirmationsPage() {
  const queries = useQueryClient();
  const { may } = useSession();
  const { data, error, refetch } = useGet<ConfirmationListBody>(`${LIST}?limit=200`, { refetchIntervalMs: 30_000 });
  const [approved, setApproved] = useState<PendingConfirmation[]>([]);
  const [open, setOpen] = useState<{ one: PendingConfirmation; decision: ConfirmationDecision } | null>(null);
  const now = useNow();
  const refresh = () => void invalidatePaths(queries, [LIST]);
  useStream({ path: '/ws/state', query: { events: 'confirmation' }, onMessage: refresh, onOpen: refresh });
  // Expired entries are hidden without waiting for an update from the service.
  const waiting = data?.confirmations.filter(({ expires_at }) => Date.parse(expires_at) > now) ?? [];
  const closeDialog = () => setOpen(null);
  const stateOf = ({ command_id, expires_at }: PendingConfirmation): ConfirmationState =>
    Date.parse(expires_at) <= now
      ? 'expired'
      : waiting.some((other) => other.command_id === command_id)
        ? 'waiting'
        : 'answered';
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Confirmations</h1>
          <p className="quiet">Critical commands wait here for confirmation before they are sent.</p>
        </div>
        <p className="quiet" role="status">
          {data === undefined ? '' : `${waiting.length} waiting`}
        </p>
      </header>
      {approved.map((one) => (
        <Approved
          key={one.command_id}
          of={one}
          close={() => setApproved((before) => before.filter((other) => other !== one))}
        />
      ))}
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading confirmations" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : waiting.length === 0 ? (
        <Empty icon="confirm" title="No pending confirmations.">
          A critical command, such as unlocking a door, appears here when it is requested.
        </Empty>
      ) : (
        <ul className="inbox">
          {waiting.map((one) => (
            <Entry key={one.command_id} of={one} onDecide={(decision) => setOpen({ one, decision })} />
          ))}
        </ul>
      )}
      {data?.next_cursor != null && <p className="quiet">More confirmations appear when these are answered.</p>}
      {may('admin') && <WaitingChanges />}
      {open?.decision === 'refuse' && <Refuse of={open.one} state={stateOf(open.one)} onClose={closeDialog} />}
      {open?.decision === 'approve' && (
        <Approve
          of={open.one}
          state={stateOf(open.one)}
          onClose={closeDialog}
          onApproved={() => setApproved((before) => [open.one, ...before])}
        />
      )}
    </>
  );
}

function Entry({ of: one, onDecide }: { of: PendingConfirmation; onDecide(decision: ConfirmationDecision): void }) {
  const titleId = `asked-${one.command_id}`;
  return (
    <li>
      <article className="card asked" aria-labelledby={titleId}>
        <header>
          <h2 id={titleId}>
            {sentenceCase(one.action)} · <DeviceName id={one.device_id} shown={one.preview.device?.name} />
          </h2>
          <p className="asked-until">
            <Icon name="clock" /> expires <Countdown until={one.expires_at} />
          </p>
        </header>
        <p className="quiet">
          Requested by <Requester of={one} />, <Time at={one.requested_at} />
          {one.plan_id !== undefined && (
            <>
              , as a step of <Link href={`/plans/${one.plan_id}`}>a plan</Link>
            </>
          )}
          . {one.reason}
        </p>
        <CommandEffect of={one} />
        <DecisionButtons onDecide={onDecide} />
      </article>
    </li>
  );
}

/** Progress of a command that was just approved. */
function Approved({ of: one, close }: { of: PendingConfirmation; close(): void }) {
  const { data, error, refetch } = useCommand(one.command_id, one.device_id);
  return (
    <section className="card approved" aria-label={`Approved: ${sentenceCase(one.action)}`}>
      <header>
        <h2>
          <Link href={commandHref(one.command_id)}>{sentenceCase(one.action)}</Link> · <DeviceName id={one.device_id} />
        </h2>
        <button type="button" className="icon-button" onClick={close}>
          <Icon name="close" />
          <span className="unseen">Dismiss</span>
        </button>
      </header>
      {data !== undefined ? (
        <CommandProgress command={data.command} />
      ) : error === null ? (
        <Loading what="Loading command" />
      ) : (
        <LoadError problem={error} retry={refetch} />
      )}
    </section>
  );
}
