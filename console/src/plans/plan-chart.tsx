import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import { useDeviceName } from '../devices/device-name.tsx';
import { roundedPath, textWidth } from '../graph/path.ts';
import { Loading, Note } from '../ui/feedback.tsx';
import { humanize, sentenceCase } from '../ui/text-format.ts';
import { type Direction, type DrawnStep, drawingOf, type PlanDrawing, planGraphOf, UNDO_HEIGHT } from './graph.ts';
import { type PlanRecord, planSummary, type StepRecord, toneOfStep, undoStateOf } from './plan-display.ts';
import './plan-chart.css';

/** Smallest scale at which texts stay readable; a larger drawing scrolls. */
const MIN_SCALE = 0.75;
const NARROW_PX = 700;

/** Chart of a plan's steps and their dependencies, with current statuses. */
export function PlanChart({ plan }: { plan: PlanRecord }) {
  const direction: Direction = innerWidth < NARROW_PX ? 'DOWN' : 'RIGHT';
  const { data, error } = useQuery({
    // An agent's plan gains steps while it runs.
    queryKey: ['plan-drawing', plan.id, direction, plan.steps.map(({ id }) => id)],
    queryFn: () => draw(plan.steps, direction),
    staleTime: Number.POSITIVE_INFINITY,
    retry: 1,
  });
  if (error) return <Note tone="warn">The chart could not be drawn. The steps are listed in the table below.</Note>;
  if (data === undefined) return <Loading what="Drawing chart" />;
  return <PlanSvg plan={plan} drawing={data} />;
}

async function draw(steps: PlanRecord['steps'], direction: Direction): Promise<PlanDrawing> {
  const { layout } = await import('../graph/layout.ts');
  return drawingOf(steps, await layout(planGraphOf(steps, direction)));
}

function PlanSvg({
  plan,
  drawing: { width, height, steps, dependencies },
}: {
  plan: PlanRecord;
  drawing: PlanDrawing;
}) {
  const id = useId();
  const statuses = new Map(plan.steps.map((step) => [step.id, step.status]));
  return (
    // biome-ignore lint/a11y/useSemanticElements: a scrollable region, not a group of fields
    // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be reachable by keyboard
    <div className="plan-chart" role="group" aria-label="Plan chart" tabIndex={0}>
      <svg
        role="img"
        aria-labelledby={id}
        viewBox={`0 0 ${width} ${height}`}
        style={{ width: `clamp(${Math.round(width * MIN_SCALE)}px, 100%, ${width}px)` }}
      >
        <title id={id}>{planSummary(plan)}</title>
        <defs>
          <marker
            id={`${id}tip`}
            viewBox="0 0 10 10"
            refX="8.5"
            refY="5"
            markerUnits="userSpaceOnUse"
            markerWidth="9"
            markerHeight="9"
            orient="auto-start-reverse"
          >
            <path d="M0 0.8 10 5 0 9.2z" className="plan-tip" />
          </marker>
        </defs>
        {dependencies.map(({ id: edge, from, points }) => (
          <path
            key={edge}
            className={`plan-arrow ${statuses.get(from) === 'succeeded' ? 'passed' : ''}`}
            d={roundedPath(points)}
            markerEnd={`url(#${id}tip)`}
          />
        ))}
        {plan.steps.map((step) => {
          const place = steps.get(step.id);
          return place === undefined ? null : <StepBox key={step.id} step={step} place={place} />;
        })}
      </svg>
    </div>
  );
}

const TITLE = '600 14px system-ui, sans-serif';
const SMALL = '12px system-ui, sans-serif';

/** Truncates a text to the available width, in pixels. */
function fitText(text: string, font: string, room: number): string {
  if (textWidth(text, font) <= room) return text;
  let length = text.length - 1;
  while (length > 0 && textWidth(`${text.slice(0, length)}…`, font) > room) length -= 1;
  return `${text.slice(0, length).trimEnd()}…`;
}

const signs: Readonly<Record<StepRecord['status'], string>> = {
  pending: '',
  running: '',
  awaiting_confirmation: 'M12 7v5l3.5 2',
  succeeded: 'M7 12.5 10.5 16 17 8.5',
  failed: 'M8 8l8 8M16 8l-8 8',
  skipped: 'M8 12h8',
  compensating: 'M16 15.5V13a3 3 0 0 0-3-3H8M10.5 7.5 8 10l2.5 2.5',
  compensated: 'M16 15.5V13a3 3 0 0 0-3-3H8M10.5 7.5 8 10l2.5 2.5',
  compensation_failed: 'M8 8l8 8M16 8l-8 8',
};

function StepBox({ step, place: { x, y, width, height } }: { step: StepRecord; place: DrawnStep }) {
  const device = useDeviceName(step.device_id);
  const undo = undoStateOf(step);
  const body = undo === 'none' ? height : height - UNDO_HEIGHT;
  const room = width - 60;
  return (
    <g
      className={`plan-step ${toneOfStep[step.status]} ${step.status}`}
      transform={`translate(${x} ${y})`}
      data-step={step.id}
    >
      <title>{`${step.id}: ${humanize(step.status)}`}</title>
      <rect className="plan-box" width={width} height={height} rx={11} />
      <g className="plan-sign" transform={`translate(12 ${body / 2 - 14})`}>
        <circle cx={14} cy={14} r={12} />
        {step.status === 'running' ? <circle className="beat" cx={14} cy={14} r={5} /> : null}
        <path d={signs[step.status]} transform="translate(2 2)" />
      </g>
      <text className="plan-title" x={48} y={body / 2 - 17} dominantBaseline="central">
        {fitText(sentenceCase(step.action), TITLE, room)}
      </text>
      <text className="plan-small" x={48} y={body / 2 + 1} dominantBaseline="central">
        {fitText(device, SMALL, room)}
      </text>
      <text className="plan-small plan-status" x={48} y={body / 2 + 18} dominantBaseline="central">
        {humanize(step.status)}
      </text>
      {undo !== 'none' && (
        <g className={`plan-undo ${undo}`} transform={`translate(0 ${body})`}>
          <path className="plan-rule" d={`M0 0H${width}`} />
          <path className="plan-back" d="M27 19v-2a4 4 0 0 0-4-4h-6M20 9.5 16.5 13l3.5 3.5" />
          <text className="plan-small" x={48} y={UNDO_HEIGHT / 2} dominantBaseline="central">
            {fitText(`undo: ${sentenceCase(step.compensation?.action ?? '').toLowerCase()}`, SMALL, room)}
          </text>
        </g>
      )}
    </g>
  );
}
