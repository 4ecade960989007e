import type { JsonObject } from '../../../src/domain/values.ts';
import type { createPlan } from '../../../src/operations/plans/plans.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { CommandEffect } from '../confirmations/command-effect.tsx';
import { DeviceName } from '../devices/device-name.tsx';
import { Pill } from '../ui/feedback.tsx';
import { humanize, sentenceCase } from '../ui/text-format.ts';
import type { PlanRequest } from './plan-draft.ts';

export type PlanDryRun = Extract<ResponseBody<typeof createPlan>, { steps: unknown }>;
type Verdict = PlanDryRun['steps'][number]['verdict'];

/** The verdict of the service and the effect for each step of a dry run. */
export function PlanPreview({ of, request }: { of: PlanDryRun; request: PlanRequest }) {
  return (
    <section className="card" aria-labelledby="preview">
      <header>
        <h2 id="preview">Preview</h2>
        <p className="quiet small">Nothing was run. The effect is that of each step alone, in the current state.</p>
      </header>
      {request.steps.map((step, index) => {
        const found = of.steps.find(({ id }) => id === step.id);
        return (
          found !== undefined && (
            <div key={step.id} className="plan-step">
              <h3>
                {index + 1}. {sentenceCase(step.action)} · <DeviceName id={step.device_id} />{' '}
                <VerdictPill of={found.verdict} />
              </h3>
              <CommandEffect
                of={{
                  preview: found.preview,
                  params: (step.params ?? {}) as JsonObject,
                  device_id: step.device_id,
                  action: step.action,
                }}
              />
            </div>
          )
        );
      })}
    </section>
  );
}

const VerdictPill = ({ of }: { of: Verdict }) =>
  of === 'allowed' ? (
    <Pill tone="good">allowed</Pill>
  ) : of === 'dry_run_required' ? (
    <Pill tone="warn">needs confirmation</Pill>
  ) : (
    <Pill tone="bad">refused: {humanize(of.toLowerCase())}</Pill>
  );
