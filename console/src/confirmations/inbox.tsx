import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'wouter';
import { refresh, useGet } from '../api/queries.ts';
import type { ConfirmationPage } from '../api/shapes.ts';
import { commandHref } from '../commands/status.tsx';
import { useCommand } from '../commands/use-command.ts';
import { CommandWay } from '../commands/way.tsx';
import { DeviceName } from '../devices/name.tsx';
import { useStream } from '../live/use-stream.ts';
import { useNames } from '../people/names.ts';
import { useNow } from '../ui/clock.ts';
import { Icon } from '../ui/icons.tsx';
import { Empty, Failure, Loading } from '../ui/states.tsx';
import { Countdown, Time } from '../ui/time.tsx';
import { headline } from '../ui/words.ts';
import { Approve, Buttons, Refuse, type Standing, type Way } from './decide.tsx';
import { Effect } from './effect.tsx';
import type { Waiting } from './waiting.ts';
import './inbox.css';

const LIST = '/v1/confirmations';

/** What waits until somebody says yes or no to it. */
export function Confirmations() {
  const queries = useQueryClient();
  const { data, error, refetch } = useGet<ConfirmationPage>(`${LIST}?limit=200`, { every: 30_000 });
  const [approved, setApproved] = useState<Waiting[]>([]);
  const [asked, setAsked] = useState<{ one: Waiting; way: Way } | null>(null);
  const now = useNow();
  const anew = () => void refresh(queries, [LIST]);
  useStream({ path: '/ws/state', query: { events: 'confirmation' }, hear: anew, missed: anew });
  // What has expired leaves by itself, also where nobody tells it.
  const waiting = data?.confirmations.filter(({ expires_at }) => Date.parse(expires_at) > now) ?? [];
  const putAway = () => setAsked(null);
  const standingOf = ({ command_id, expires_at }: Waiting): Standing =>
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
          <Failure problem={error} retry={refetch} />
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
      {asked?.way === 'refuse' && <Refuse of={asked.one} standing={standingOf(asked.one)} close={putAway} />}
      {asked?.way === 'approve' && (
        <Approve
          of={asked.one}
          standing={standingOf(asked.one)}
          close={putAway}
          done={() => setApproved((before) => [asked.one, ...before])}
        />
      )}
    </>
  );
}

function Entry({ of: one, ask }: { of: Waiting; ask(way: Way): void }) {
  const nameOf = useNames();
  const titleId = `asked-${one.command_id}`;
  return (
    <li>
      <article className="card asked" aria-labelledby={titleId}>
        <header>
          <h2 id={titleId}>
            {headline(one.action)} · <DeviceName id={one.device_id} />
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
        <Effect of={one} />
        <Buttons of={one} ask={ask} />
      </article>
    </li>
  );
}

/** What becomes of what was approved just now. */
function Approved({ of: one, close }: { of: Waiting; close(): void }) {
  const { data, error, refetch } = useCommand(one.command_id, one.device_id);
  return (
    <section className="card approved" aria-label={`Approved: ${headline(one.action)}`}>
      <header>
        <h2>
          <Link href={commandHref(one.command_id)}>{headline(one.action)}</Link> · <DeviceName id={one.device_id} />
        </h2>
        <button type="button" className="icon-button" onClick={close}>
          <Icon name="close" />
          <span className="unseen">Put it away</span>
        </button>
      </header>
      {data !== undefined ? (
        <CommandWay command={data.command} />
      ) : error === null ? (
        <Loading what="Following it" />
      ) : (
        <Failure problem={error} retry={refetch} />
      )}
    </section>
  );
}
