import { Link } from 'wouter';
import type { listPlans } from '../../../src/operations/plans/plan-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { usePagedQuery } from '../api/paged-query.ts';
import { useUserNames } from '../people/user-names.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { humanize } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { PlanPill } from './pills.tsx';
import { type PlanRecord, planHref, planTitle, type StepRecord, toneOfStep } from './plan-display.ts';
import { usePlanUpdates } from './use-plan-updates.ts';
import './list.css';

type PlanPage = ResponseBody<typeof listPlans>;

/** List of plans, newest first. */
export function PlansPage() {
  const { firstPage, rows, isComplete, problem, loadMore, reload } = usePagedQuery<PlanPage, PlanRecord>(
    '/v1/plans?limit=50',
    ({ plans }) => plans,
  );
  const nameOf = useUserNames();
  usePlanUpdates('/v1/plans');
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Plans</h1>
          <p className="quiet">
            A plan runs several commands as one. Each step starts when its dependencies have succeeded; if a step fails,
            completed steps are rolled back.
          </p>
        </div>
        {rows.length > 0 && <NewPlan />}
      </header>
      {firstPage === null ? (
        problem === null ? (
          <Loading what="Loading plans" />
        ) : (
          <LoadError problem={problem} retry={reload} />
        )
      ) : rows.length === 0 ? (
        <Empty icon="plan" title="No plans yet.">
          <p>
            Create one here, with <code>twinkeep plans run</code>, or from an agent's proposal.
          </p>
          <NewPlan />
        </Empty>
      ) : (
        <section className="card" aria-label="Plans">
          <Table label="Plans, newest first" columns={['Plan', 'Status', 'Steps', 'Created by', 'Created']}>
            {rows.map((plan) => (
              <tr key={plan.id}>
                <th scope="row">
                  <Link href={planHref(plan.id)}>{planTitle(plan)}</Link>
                </th>
                <td>
                  <PlanPill status={plan.status} />
                </td>
                <td>
                  <Progress steps={plan.steps} />
                </td>
                <td className="quiet">{nameOf(plan.created_by)}</td>
                <td className="quiet">
                  <Time at={plan.created_at} />
                </td>
              </tr>
            ))}
          </Table>
          {!isComplete && (
            <button type="button" className="button" onClick={loadMore}>
              Show older plans
            </button>
          )}
        </section>
      )}
    </>
  );
}

/** Nothing for viewers. */
function NewPlan() {
  const { may } = useSession();
  return (
    may('user') && (
      <Link className="button primary" href="/plans/new">
        New plan …
      </Link>
    )
  );
}

/** A coloured mark per step, with a text alternative. */
function Progress({ steps }: { steps: readonly StepRecord[] }) {
  const counts = new Map<string, number>();
  for (const { status } of steps) counts.set(status, (counts.get(status) ?? 0) + 1);
  const summary = [...counts].map(([status, count]) => `${count} ${humanize(status)}`).join(', ');
  return (
    <span className="progress" title={summary}>
      {steps.map(({ id, status }) => (
        <span key={id} className={`${toneOfStep[status]} ${status}`} />
      ))}
      <span className="unseen">{summary}</span>
    </span>
  );
}
