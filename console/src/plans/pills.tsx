import type { PlanStatus, StepStatus } from '../../../src/domain/plan.ts';
import { Pill } from '../ui/states.tsx';
import { plain } from '../ui/words.ts';
import { toneOfPlan, toneOfStep } from './words.ts';

export const PlanPill = ({ status }: { status: PlanStatus }) => <Pill tone={toneOfPlan[status]}>{plain(status)}</Pill>;

export const StepPill = ({ status }: { status: StepStatus }) => <Pill tone={toneOfStep[status]}>{plain(status)}</Pill>;
