import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import type { ConfirmationPage } from '../api/answer-types.ts';
import { invalidatePaths, useGet } from '../api/queries.ts';
import { CommandProgress } from '../commands/command-progress.tsx';
import { commandHref } from '../commands/status.tsx';
import { useCommand } from '../commands/use-command.ts';
import { DeviceName } from '../devices/device-name.tsx';
import { useStream } from '../live/use-stream.ts';
import { useUserNames } from '../people/user-names.ts';
import { useNow } from '../ui/clock.ts';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Countdown, Time } from '../ui/time.tsx';
import { CommandEffect } from './command-effect.tsx';
import { Approve, type ConfirmationState, type Decision, DecisionButtons, Refuse } from './decision-dialogs.tsx';
import type { PendingConfirmation } from './pending-confirmation.ts';
import './inbox.css';

const LIST = '/v1/confirmations';

/** What waits until somebody says yes or no to it. */
export function Confirmations() {
  const queries = useQueryClient();
  const { data, error, refetch } = useGet<ConfirmationPage>(`${LIST}?limit=200`, { refetchIntervalMs: 30_000 });
  const [approved, setApproved] = useState<PendingConfirmation[]>([]);
  const [asked, setAsked] = useState<{ one: PendingConfirmation; way: Decision } | null>(null);
  const now = useNow();
  const anew = () => void invalidatePaths(queries, [LIST]);
  useStream({ path: '/ws/state', query: { events: 'confirmation' }, onMessage: anew, onOpen: anew });
  // What has expired leaves by itself, also where nobody tells it.
  const waiting = data?.confirmations.filter(({ expires_at }) => Date.parse(expires_at) > now) ?? [];
  const putAway = () => setAsked(null);
  const standingOf = ({ command_id, expires_at }: PendingConfirmation): ConfirmationState =>
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
          <p className="quiet">Critical commands wait here until somebody has looked at what they will do.</p>
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
          <Loading what="Looking into the inbox" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : waiting.length === 0 ? (
        <Empty icon="confirm" title="Nothing waits for you.">
          A critical command, such as unlocking a door, appears here as soon as somebody asks for it.
        </Empty>
      ) : (
        <ul className="inbox">
          {waiting.map((one) => (
            <Entry key={one.command_id} of={one} ask={(way) => setAsked({ one, way })} />
          ))}
        </ul>
      )}
      {data?.next_cursor != null && <p className="quiet">There are more: they appear as these are answered.</p>}
      {asked?.way === 'refuse' && <Refuse of={asked.one} state={standingOf(asked.one)} onClose={putAway} />}
      {asked?.way === 'approve' && (
        <Approve
          of={asked.one}
          state={standingOf(asked.one)}
          onClose={putAway}
          done={() => setApproved((before) => [asked.one, ...before])}
        />
      )}
    </>
  );
}

function Entry({ of: one, ask }: { of: PendingConfirmation; ask(way: Decision): void }) {
  const nameOf = useUserNames();
  const titleId = `asked-${one.command_id}`;
  return (
    <li>
      <article className="card asked" aria-labelledby={titleId}>
        <header>
          <h2 id={titleId}>
            {sentenceCase(one.action)} · <DeviceName id={one.device_id} />
          </h2>
          <p className="asked-until">
            <Icon name="clock" /> expires <Countdown until={one.expires_at} />
          </p>
        </header>
        <p className="quiet">
          Asked by {nameOf(one.requested_by)}, <Time at={one.requested_at} />
          {one.plan_id !== undefined && (
            <>
              , as a step of <Link href={`/plans/${one.plan_id}`}>a plan</Link>
            </>
          )}
          . {one.reason}
        </p>
        <CommandEffect of={one} />
        <DecisionButtons of={one} ask={ask} />
      </article>
    </li>
  );
}

/** What becomes of what was approved just now. */
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
          <span className="unseen">Put it away</span>
        </button>
      </header>
      {data !== undefined ? (
        <CommandProgress command={data.command} />
      ) : error === null ? (
        <Loading what="Following it" />
      ) : (
        <LoadError problem={error} retry={refetch} />
      )}
    </section>
  );
}
