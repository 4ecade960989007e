import type { PlanStatus, StepStatus } from '../../../src/domain/plan.ts';
import { Pill } from '../ui/feedback.tsx';
import { humanize } from '../ui/text-format.ts';
import { toneOfPlan, toneOfStep } from './plan-display.ts';

export const PlanPill = ({ status }: { status: PlanStatus }) => (
  <Pill tone={toneOfPlan[status]}>{humanize(status)}</Pill>
);

export const StepPill = ({ status }: { status: StepStatus }) => (
  <Pill tone={toneOfStep[status]}>{humanize(status)}</Pill>
);
