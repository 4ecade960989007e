import { type FormEvent, useId, useRef, useState } from 'react';
import { Link } from 'wouter';
import type { getPlan } from '../../../src/operations/plan-view.ts';
import { useChange, useGet } from '../api/queries.ts';
import type { Answer } from '../api/shapes.ts';
import { commandHref } from '../commands/status.tsx';
import { DeviceName } from '../devices/name.tsx';
import { useNames } from '../people/names.ts';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Empty, Failed, Failure, Loading, Note } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { brief } from '../ui/values.tsx';
import { headline } from '../ui/words.ts';
import { PlanChart } from './drawing.tsx';
import { PlanPill, StepPill } from './pills.tsx';
import { usePlanNews } from './use-plan-news.ts';
import { isOver, type PlanRecord, type Step, storyOf, titleOf, toneOfPlan } from './words.ts';

/** Who hears no stream asks more often. */
const SELDOM_MS = 15_000;
const OFTEN_MS = 3_000;

/** One plan: what depends on what, how far each step is, and its undoing as it runs. */
export function PlanPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const path = `/v1/plans/${id}`;
  const { data, error, refetch } = useGet<Answer<typeof getPlan>>(path, { every: may('user') ? SELDOM_MS : OFTEN_MS });
  const nameOf = useNames();
  usePlanNews(path, id);
  if (data === undefined || error?.status === 404) {
    return error === null ? <Loading what="Loading the plan" /> : <Failure problem={error} retry={refetch} />;
  }
  const { plan } = data;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{titleOf(plan)}</h1>
          <p className="quiet">
            <PlanPill status={plan.status} /> made by {nameOf(plan.created_by)}, <Time at={plan.created_at} />
            {plan.finished_at !== null && (
              <>
                , over <Time at={plan.finished_at} />
              </>
            )}
            {may('admin') && (
              <>
                {' · '}
                <Link href={`/actors/plan/${plan.id}`}>statechart and journal</Link>
              </>
            )}
          </p>
        </div>
        {may('user') && !isOver(plan) && plan.status !== 'rolling_back' && <Cancel plan={plan} />}
      </header>
      <Note tone={toneOfPlan[plan.status]}>
        <p>
          {storyOf(plan)}
          {plan.status === 'awaiting_confirmation' && may('user') && (
            <>
              {' '}
              <Link href="/confirmations">Answer it</Link>
            </>
          )}
        </p>
      </Note>
      <section className="card" aria-labelledby="drawing">
        <header>
          <h2 id="drawing">Its steps</h2>
          <p className="quiet small">
            {plan.on_failure === 'stop'
              ? 'If one fails, nothing new starts.'
              : 'If one fails, what was done is undone, the last first.'}
          </p>
        </header>
        {plan.steps.length === 0 ? (
          <Empty icon="plan" title="No steps.">
            {isOver(plan) ? 'It ended before there were any.' : 'They appear here as soon as they are known.'}
          </Empty>
        ) : (
          <>
            <PlanChart plan={plan} />
            <Steps steps={plan.steps} />
          </>
        )}
      </section>
    </>
  );
}

function Steps({ steps }: { steps: readonly Step[] }) {
  const { may } = useSession();
  return (
    <Table label="Steps" columns={['Step', 'Command', 'Device', 'Status', 'After', 'Undone by']}>
      {steps.map(({ id, action, params, device_id, status, depends_on, compensation, command_id, error }) => (
        <tr key={id}>
          <th scope="row">{id}</th>
          <td>
            {command_id === undefined || !may('user') ? (
              headline(action)
            ) : (
              <Link href={commandHref(command_id)}>{headline(action)}</Link>
            )}{' '}
            <span className="quiet small">{brief(params)}</span>
          </td>
          <td>
            <DeviceName id={device_id} />
          </td>
          <td>
            <StepPill status={status} />
            {error !== undefined && (
              <p className="quiet small what">
                {error.detail} <code>{error.code}</code>
              </p>
            )}
          </td>
          <td>{depends_on.join(', ') || '—'}</td>
          <td>
            {compensation === undefined ? (
              '—'
            ) : (
              <>
                {headline(compensation.action)} <span className="quiet small">{brief(compensation.params)}</span>
              </>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}

function Cancel({ plan }: { plan: PlanRecord }) {
  const [open, setOpen] = useState(false);
  const cancel = useChange(['/v1/plans', '/v1/confirmations']);
  const reason = useRef<HTMLInputElement>(null);
  const reasonId = useId();
  const close = (): void => {
    setOpen(false);
    cancel.reset();
  };
  const send = (event: FormEvent): void => {
    event.preventDefault();
    const said = reason.current?.value.trim() ?? '';
    cancel.mutate(
      { method: 'POST', path: `/v1/plans/${plan.id}/cancel`, body: said === '' ? {} : { reason: said } },
      { onSuccess: close },
    );
  };
  const toUndo = plan.steps.filter(({ status, compensation }) => status === 'succeeded' && compensation !== undefined);
  return (
    <>
      <button type="button" className="button danger" onClick={() => setOpen(true)}>
        Cancel it …
      </button>
      {open && (
        <Dialog title={`Cancel: ${titleOf(plan)}?`} close={close}>
          <p>Nothing new is started. What is under way is waited for.</p>
          {toUndo.length > 0 && (
            <>
              <p>Then these are undone, the last first:</p>
              <ul>
                {toUndo.map(({ id, device_id, compensation }) => (
                  <li key={id}>
                    {headline(compensation?.action ?? '')} · <DeviceName id={device_id} />
                  </li>
                ))}
              </ul>
            </>
          )}
          <form onSubmit={send}>
            <label htmlFor={reasonId}>Why (kept in its journal; may be left empty)</label>
            <input id={reasonId} ref={reason} maxLength={500} autoComplete="off" />
            <Failed error={cancel.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Back
              </button>
              <button type="submit" className="button danger" disabled={cancel.isPending}>
                Cancel the plan
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
