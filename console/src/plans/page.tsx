import { type FormEvent, useId, useRef, useState } from 'react';
import { Link } from 'wouter';
import type { getPlan } from '../../../src/operations/plans/plan-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { commandHref } from '../commands/status.tsx';
import { DeviceName } from '../devices/device-name.tsx';
import { knownParamUnits } from '../devices/known-units.ts';
import { ShapedBy } from '../memories/shaped-by.tsx';
import { useUserNames } from '../people/user-names.ts';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Empty, LoadError, Loading, Note } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { formatBrief } from '../ui/values.tsx';
import { PlanPill, StepPill } from './pills.tsx';
import { PlanChart } from './plan-chart.tsx';
import { isFinished, type PlanRecord, planSummary, planTitle, type StepRecord, toneOfPlan } from './plan-display.ts';
import { Planning } from './planning.tsx';
import { usePlanUpdates } from './use-plan-updates.ts';

/** Viewers have no stream, so their page polls more often. */
const REFRESH_MS = 15_000;
const REFRESH_WITHOUT_STREAM_MS = 3_000;

/** Page of one plan: dependency chart, progress of each step, and rollback. */
export function PlanPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const { may } = useSession();
  const path = `/v1/plans/${id}`;
  const { data, error, refetch } = useGet<ResponseBody<typeof getPlan>>(path, {
    refetchIntervalMs: may('user') ? REFRESH_MS : REFRESH_WITHOUT_STREAM_MS,
  });
  const nameOf = useUserNames();
  usePlanUpdates(path, id);
  if (data === undefined || error?.status === 404) {
    return error === null ? <Loading what="Loading plan" /> : <LoadError isWholePage problem={error} retry={refetch} />;
  }
  const { plan } = data;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>{planTitle(plan)}</h1>
          <p className="quiet">
            <PlanPill status={plan.status} /> created by {nameOf(plan.created_by)} <Time at={plan.created_at} />
            {plan.finished_at !== null && (
              <>
                , finished <Time at={plan.finished_at} />
              </>
            )}
            {may('admin') && (
              <>
                {' · '}
                <Link href={`/actors/plan/${plan.id}`}>Statechart and journal</Link>
              </>
            )}
          </p>
        </div>
        {may('user') && !isFinished(plan) && plan.status !== 'rolling_back' && <Cancel plan={plan} />}
      </header>
      <Note tone={toneOfPlan[plan.status]}>
        <p>
          {planSummary(plan)}
          {plan.status === 'awaiting_confirmation' && may('user') && (
            <>
              {' '}
              <Link href="/confirmations">Open confirmations</Link>
            </>
          )}
        </p>
      </Note>
      <section className="card" aria-labelledby="drawing">
        <header>
          <h2 id="drawing">Steps</h2>
          <p className="quiet small">
            {plan.on_failure === 'stop'
              ? 'If a step fails, no new steps start.'
              : 'If a step fails, completed steps are rolled back in reverse order.'}
          </p>
        </header>
        {plan.steps.length === 0 ? (
          <Empty icon="plan" title="No steps.">
            {isFinished(plan)
              ? 'The plan ended before steps were added.'
              : 'Steps appear here as soon as they are planned.'}
          </Empty>
        ) : (
          <>
            <PlanChart plan={plan} />
            <Steps steps={plan.steps} />
            <ShapedBy memories={plan.cognition?.memories} />
          </>
        )}
      </section>
      <Planning of={plan.cognition} />
    </>
  );
}

function Steps({ steps }: { steps: readonly StepRecord[] }) {
  const { may } = useSession();
  return (
    <Table label="Steps" columns={['Step', 'Command', 'Device', 'Status', 'Depends on', 'Rollback']}>
      {steps.map(({ id, action, params, device_id, status, depends_on, compensation, command_id, error }) => (
        <tr key={id}>
          <th scope="row">{id}</th>
          <td>
            {command_id === undefined || !may('user') ? (
              sentenceCase(action)
            ) : (
              <Link href={commandHref(command_id)}>{sentenceCase(action)}</Link>
            )}{' '}
            <span className="quiet small">{formatBrief(params, knownParamUnits(action))}</span>
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
                {sentenceCase(compensation.action)}{' '}
                <span className="quiet small">
                  {formatBrief(compensation.params, knownParamUnits(compensation.action))}
                </span>
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
    const text = reason.current?.value.trim() ?? '';
    cancel.mutate(
      { method: 'POST', path: `/v1/plans/${plan.id}/cancel`, body: text === '' ? {} : { reason: text } },
      { onSuccess: close },
    );
  };
  const toUndo = plan.steps.filter(({ status, compensation }) => status === 'succeeded' && compensation !== undefined);
  return (
    <>
      <button type="button" className="button danger" onClick={() => setOpen(true)}>
        Cancel plan …
      </button>
      {open && (
        <Dialog title={`Cancel: ${planTitle(plan)}?`} onClose={close}>
          <p>No new steps start. Running steps are completed first.</p>
          {toUndo.length > 0 && (
            <>
              <p>Then these steps are rolled back, in reverse order:</p>
              <ul>
                {toUndo.map(({ id, device_id, compensation }) => (
                  <li key={id}>
                    {sentenceCase(compensation?.action ?? '')} · <DeviceName id={device_id} />
                  </li>
                ))}
              </ul>
            </>
          )}
          <form onSubmit={send}>
            <label htmlFor={reasonId}>Reason (optional, stored in the journal)</label>
            <input id={reasonId} ref={reason} maxLength={500} autoComplete="off" />
            <ChangeError error={cancel.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Keep plan
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
