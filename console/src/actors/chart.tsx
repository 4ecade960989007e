import { useQuery } from '@tanstack/react-query';
import { useEffect, useId, useRef } from 'react';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { Machine } from '../api/answer-types.ts';
import { roundedPath } from '../graph/path.ts';
import { Loading, Note } from '../ui/feedback.tsx';
import { chartGraphOf, type Drawing, type DrawnArrow, type DrawnState, regionsOf } from './chart-graph.ts';
import { type HistoryState, isActive, isEnabled, wasExited, wasTaken } from './history-state.ts';
import { explainedLabelOf, stateTitle } from './machine-words.ts';
import './chart.css';

/** Statechart of an actor: the current state, the last transition and the possible next ones. */
export function Chart({ machine, historyState }: { machine: Machine; historyState: HistoryState }) {
  const { data, error } = useQuery({
    queryKey: ['chart', machine.kind, machine.version],
    queryFn: () => drawingsOf(machine),
    staleTime: Number.POSITIVE_INFINITY,
    retry: 1,
  });
  if (error) return <Note tone="warn">The chart could not be drawn. The states are listed below.</Note>;
  if (data === undefined) return <Loading what="Drawing chart" />;
  return (
    <div className="charts">
      {data.map(({ region, drawing }) => (
        <Region
          key={region}
          kind={machine.kind}
          title={region || machine.kind}
          drawing={drawing}
          historyState={historyState}
        />
      ))}
    </div>
  );
}

async function drawingsOf(machine: Machine): Promise<{ region: string; drawing: Drawing }[]> {
  const { layout } = await import('../graph/layout.ts');
  return Promise.all(
    regionsOf(machine).map(async (region) => {
      const both = (['DOWN', 'RIGHT'] as const).map(async (direction) => {
        const { graph, read } = chartGraphOf(machine, region, direction);
        return read(await layout(graph));
      });
      const [down, right] = await Promise.all(both);
      return {
        region,
        drawing: costOf(right as Drawing) < costOf(down as Drawing) ? (right as Drawing) : (down as Drawing),
      };
    }),
  );
}

/** Cost of a drawing, to choose the layout direction: height on screen, plus penalties for scaling down and overflow. */
function costOf({ width, height }: Drawing): number {
  const scale = TARGET_WIDTH / width;
  const overhang = Math.max(0, MIN_SCALE - scale) * 10_000;
  return height * Math.min(1, scale) + Math.max(0, 1 - scale) * 1_000 + overhang;
}
const TARGET_WIDTH = 880;
/** Smallest scale at which texts stay readable; a larger drawing scrolls. */
const MIN_SCALE = 0.8;

interface RegionProps {
  kind: ActorKind;
  title: string;
  drawing: Drawing;
  historyState: HistoryState;
}

function Region({ kind, title, drawing, historyState }: RegionProps) {
  const { width, height, states, arrows } = drawing;
  const id = useId();
  const lit = states.filter((state) => state.kind !== 'group' && isState(state) && isActive(state.path, historyState));
  const scroller = useRef<HTMLElement>(null);
  const middle = lit[0] === undefined ? null : (lit[0].x + lit[0].width / 2) / width;
  // A drawing larger than the screen is scrolled to the current state.
  useEffect(() => {
    const { current } = scroller;
    if (current !== null && middle !== null) {
      current.scrollLeft = middle * current.scrollWidth - current.clientWidth / 2;
    }
  }, [middle]);
  const styledArrows = arrows
    .map((arrow) => ({ arrow, look: arrowStyleOf(arrow, historyState) }))
    .sort((a, b) => order[a.look] - order[b.look]);
  return (
    <figure className="chart" style={{ flexBasis: width + 2 }}>
      <figcaption>{stateTitle(title)}</figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable regions must be reachable by keyboard */}
      <section ref={scroller} className="chart-scroll" tabIndex={0} aria-label={`Chart of ${stateTitle(title)}`}>
        <svg
          style={{ width: `clamp(${Math.round(width * MIN_SCALE)}px, 100%, ${width}px)` }}
          viewBox={`0 0 ${width} ${height}`}
          role="img"
          aria-labelledby={id}
        >
          <title id={id}>{`${stateTitle(title)}: now ${lit.map((state) => state.title).join(', ')}`}</title>
          <defs>
            {(['idle', 'can', 'took'] as const).map((look) => (
              <marker
                key={look}
                id={`${id}${look}`}
                className={`tip ${look}`}
                viewBox="0 0 10 10"
                refX="8.5"
                refY="5"
                markerUnits="userSpaceOnUse"
                markerWidth="9"
                markerHeight="9"
                orient="auto"
              >
                <path d="M0 0.8 10 5 0 9.2z" />
              </marker>
            ))}
          </defs>
          {states
            .filter(({ kind }) => kind === 'group')
            .map((state) => (
              <Box key={state.path} state={state} historyState={historyState} />
            ))}
          {styledArrows.map(({ arrow, look }) => (
            <path
              key={arrow.id}
              className={`arrow ${look}`}
              d={roundedPath(arrow.points)}
              markerEnd={`url(#${id}${look})`}
            />
          ))}
          {states
            .filter(({ kind }) => kind !== 'group')
            .map((state) => (
              <Box key={state.path} state={state} historyState={historyState} />
            ))}
          {styledArrows.map(({ arrow, look }) => (
            <Label key={arrow.id} kind={kind} arrow={arrow} look={look} />
          ))}
        </svg>
      </section>
    </figure>
  );
}

type ArrowStyle = 'idle' | 'can' | 'took';
/** Drawing order: highlighted arrows on top. */
const order: Readonly<Record<ArrowStyle, number>> = { idle: 0, can: 1, took: 2 };

function arrowStyleOf(arrow: DrawnArrow, historyState: HistoryState): ArrowStyle {
  if (wasTaken(arrow, historyState)) return 'took';
  return isEnabled(arrow, historyState) ? 'can' : 'idle';
}

const isState = ({ kind }: DrawnState): boolean => kind !== 'start' && kind !== 'any';

function Box({ state, historyState }: { state: DrawnState; historyState: HistoryState }) {
  const { path, title, description, kind, x, y, width, height } = state;
  if (kind === 'start') return <circle className="start" cx={x + width / 2} cy={y + height / 2} r={5} />;
  const lit = isState(state) && isActive(path, historyState);
  const names = ['box', kind, lit && 'lit', isState(state) && wasExited(path, historyState) && 'left']
    .filter(Boolean)
    .join(' ');
  return (
    <g className={names}>
      {description !== '' && <title>{description}</title>}
      {lit && kind !== 'group' && (
        <rect className="glow" x={x - 5} y={y - 5} width={width + 10} height={height + 10} rx={16} />
      )}
      <rect x={x} y={y} width={width} height={height} rx={kind === 'group' ? 14 : 11} />
      {kind === 'final' && (
        <rect className="inner" x={x + 3.5} y={y + 3.5} width={width - 7} height={height - 7} rx={8} />
      )}
      <text
        x={kind === 'group' ? x + 16 : x + width / 2}
        y={kind === 'group' ? y + 24 : y + height / 2}
        textAnchor={kind === 'group' ? 'start' : 'middle'}
        dominantBaseline={kind === 'group' ? 'auto' : 'central'}
      >
        {title}
      </text>
    </g>
  );
}

function Label({ kind, arrow, look }: { kind: ActorKind; arrow: DrawnArrow; look: ArrowStyle }) {
  if (arrow.label === null) return null;
  const { lines, x, y, width, height } = arrow.label;
  return (
    <g className={`label ${look}`}>
      <title>{arrow.transitions.map((one) => explainedLabelOf(kind, one)).join('\n')}</title>
      <rect x={x} y={y} width={width} height={height} rx={5} />
      {lines.map((line, n) => (
        <text key={line} x={x + width / 2} y={y + 14 + n * 16} textAnchor="middle">
          {line}
        </text>
      ))}
    </g>
  );
}
