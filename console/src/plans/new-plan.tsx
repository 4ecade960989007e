import { type FormEvent, useId, useRef, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { MAX_STEPS } from '../../../src/domain/plan.ts';
import type { createPlan } from '../../../src/operations/plans/plans.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange } from '../api/queries.ts';
import type { FormChecks } from '../commands/param-fields.tsx';
import { useAllDevices } from '../devices/use-all-devices.ts';
import { ChangeError, Empty, LoadError, Loading, Note } from '../ui/feedback.tsx';
import { textIn } from '../ui/form-dialog.tsx';
import { NameField } from '../ui/name-field.tsx';
import { planHref } from './plan-display.ts';
import { type DraftStep, type PlanRequest, planStepsOf, withNewStep, withoutStep } from './plan-draft.ts';
import { type PlanDryRun, PlanPreview } from './plan-preview.tsx';
import { StepFields } from './step-fields.tsx';
import './new-plan.css';

type PlanResult = ResponseBody<typeof createPlan>;

/** Form that previews and runs a plan. */
export function NewPlanPage() {
  const { rows, isComplete, problem, reload } = useAllDevices();
  const devices = rows.filter(({ revoked }) => !revoked);
  return (
    <>
      <header className="page-head">
        <div>
          <h1>New plan</h1>
          <p className="quiet">
            Each step starts when the steps before it have succeeded. Preview shows the effect first.
          </p>
        </div>
      </header>
      {devices.length > 0 ? (
        <PlanForm devices={devices} isComplete={isComplete} />
      ) : problem !== null ? (
        <LoadError problem={problem} retry={reload} />
      ) : isComplete ? (
        <Empty icon="device" title="No devices yet.">
          A plan needs a device. <Link href="/devices">Open devices</Link>
        </Empty>
      ) : (
        <Loading what="Loading devices" />
      )}
    </>
  );
}

type Devices = ReturnType<typeof useAllDevices>['rows'];

function PlanForm({ devices, isComplete }: { devices: Devices; isComplete: boolean }) {
  const [, navigate] = useLocation();
  const [steps, setSteps] = useState<readonly DraftStep[]>(() => withNewStep([]));
  const [preview, setPreview] = useState<{ of: PlanDryRun; request: PlanRequest } | null>(null);
  const [checks] = useState<FormChecks>(() => new Set());
  /** Number of a step without an action, such as that of a device without a manifest. */
  const [incomplete, setIncomplete] = useState<number | null>(null);
  const isPreview = useRef(false);
  const create = useChange<PlanResult>(['/v1/plans?', '/v1/confirmations']);
  const failureId = useId();
  // A preview shows the plan as it was.
  const change = (after: readonly DraftStep[]): void => {
    setSteps(after);
    setPreview(null);
    setIncomplete(null);
  };
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    // All are called, so that each shows its errors.
    const isValid = [...checks].map((check) => check()).every(Boolean);
    const without = steps.findIndex(({ action }) => action === null);
    setIncomplete(without === -1 ? null : without + 1);
    if (!isValid || without !== -1) return;
    const given = new FormData(event.currentTarget);
    const name = textIn(given, 'name');
    const request: PlanRequest = {
      ...(name !== '' && { name }),
      steps: planStepsOf(steps),
      on_failure: textIn(given, 'on_failure') === 'stop' ? 'stop' : 'rollback',
    };
    const body = { ...request, ...(isPreview.current && { dry_run: true }) };
    create.mutate(
      { method: 'POST', path: '/v1/plans', body },
      {
        onSuccess(answer) {
          if ('plan' in answer) navigate(planHref(answer.plan.id));
          else setPreview({ of: answer, request });
        },
      },
    );
  };
  return (
    <form className="plan-form" onSubmit={send}>
      <NameField label="Name (optional)" placeholder="e.g. Good night" isRequired={false} />
      <label htmlFor={failureId}>If a step fails</label>
      <select id={failureId} name="on_failure">
        <option value="rollback">Roll completed steps back</option>
        <option value="stop">Stop and keep completed steps</option>
      </select>
      {!isComplete && (
        <p className="quiet small">Only the newest {devices.length.toLocaleString()} devices are offered.</p>
      )}
      {steps.map((step, index) => (
        <StepFields
          key={step.key}
          step={step}
          index={index}
          earlier={steps.slice(0, index)}
          devices={devices}
          checks={checks}
          onChange={(changed) => change(steps.map((one) => (one.key === changed.key ? changed : one)))}
          onRemove={steps.length === 1 ? undefined : () => change(withoutStep(steps, step.key))}
        />
      ))}
      <div className="actions">
        <button
          type="button"
          className="button"
          disabled={steps.length >= MAX_STEPS}
          onClick={() => change(withNewStep(steps))}
        >
          Add step
        </button>
      </div>
      {preview !== null && <PlanPreview of={preview.of} request={preview.request} />}
      {incomplete !== null && <Note tone="bad">Step {incomplete} has no action. Choose one, or remove the step.</Note>}
      <ChangeError error={create.error} />
      <div className="actions">
        <button
          type="submit"
          className="button"
          disabled={create.isPending}
          onClick={() => {
            isPreview.current = true;
          }}
        >
          Preview
        </button>
        <button
          type="submit"
          className="button primary"
          disabled={create.isPending}
          onClick={() => {
            isPreview.current = false;
          }}
        >
          Run plan
        </button>
      </div>
    </form>
  );
}
