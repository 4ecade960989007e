import { Link } from 'wouter';
import type { listPlans } from '../../../src/operations/plan-view.ts';
import { usePages } from '../api/pages.ts';
import type { Answer } from '../api/shapes.ts';
import { useNames } from '../people/names.ts';
import { Empty, Failure, Loading } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { plain } from '../ui/words.ts';
import { PlanPill } from './pills.tsx';
import { usePlanNews } from './use-plan-news.ts';
import { type PlanRecord, planHref, type Step, titleOf, toneOfStep } from './words.ts';
import './list.css';

type PlanPage = Answer<typeof listPlans>;

/** Several steps as one, newest first. */
export function Plans() {
  const { first, rows, whole, problem, more, again } = usePages<PlanPage, PlanRecord>(
    '/v1/plans?limit=50',
    ({ plans }) => plans,
  );
  const nameOf = useNames();
  usePlanNews('/v1/plans');
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Plans</h1>
          <p className="quiet">
            Several steps as one: each starts when those it depends on are done, and is undone if another fails.
          </p>
        </div>
      </header>
      {first === null ? (
        problem === null ? (
          <Loading what="Loading the plans" />
        ) : (
          <Failure problem={problem} retry={again} />
        )
      ) : rows.length === 0 ? (
        <Empty icon="plan" title="No plans yet.">
          Make one with <code>twinkeep plans run</code>, by the API, or let an agent propose it.
        </Empty>
      ) : (
        <section className="card" aria-label="Plans">
          <Table label="Plans, newest first" columns={['Plan', 'Status', 'Steps', 'By', 'Made']}>
            {rows.map((plan) => (
              <tr key={plan.id}>
                <th scope="row">
                  <Link href={planHref(plan.id)}>{titleOf(plan)}</Link>
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
          {!whole && (
            <button type="button" className="button" onClick={more}>
              Show older ones
            </button>
          )}
        </section>
      )}
    </>
  );
}

/** A mark for each step, in its colour; and in words for who does not see them. */
function Progress({ steps }: { steps: readonly Step[] }) {
  const counts = new Map<string, number>();
  for (const { status } of steps) counts.set(status, (counts.get(status) ?? 0) + 1);
  const told = [...counts].map(([status, count]) => `${count} ${plain(status)}`).join(', ');
  return (
    <span className="progress" title={told}>
      {steps.map(({ id, status }) => (
        <span key={id} className={`${toneOfStep[status]} ${status}`} />
      ))}
      <span className="unseen">{told}</span>
    </span>
  );
}
