import { Link } from 'wouter';
import { Icon, type IconName } from '../ui/icons.tsx';
import { counted } from '../ui/text-format.ts';
import { fullTime } from '../ui/time.tsx';
import { type TimeWindow, windowBetween } from './chart-window.ts';
import type { ChartMark, EventKind } from './use-marks.ts';

const icons: Readonly<Record<EventKind, IconName>> = {
  presence: 'node',
  command: 'command',
  plan: 'plan',
  confirmation: 'confirm',
  refusal: 'warning',
  firmware: 'firmware',
};

/** Width of a mark, which is large enough to be touched. */
const MARK_PX = 26;

/** Marks that would cover each other. */
interface MarkGroup {
  /** Share of the width. */
  left: number;
  marks: readonly ChartMark[];
}

/** The marks in the window, in groups of those that would cover each other at this width. */
export function markGroups(marks: readonly ChartMark[], { from, to }: TimeWindow, width: number): MarkGroup[] {
  const groups: { left: number; marks: ChartMark[] }[] = [];
  for (const mark of marks) {
    const left = (mark.at - from) / (to - from);
    if (left < 0 || left > 1) continue;
    const last = groups.at(-1);
    if (last !== undefined && (left - last.left) * width < MARK_PX) last.marks.push(mark);
    else groups.push({ left, marks: [mark] });
  }
  return groups;
}

interface MarkStripProps {
  marks: readonly ChartMark[];
  window: TimeWindow;
  /** Of the plotting area, in pixels. */
  width: number;
  onWindow(window: TimeWindow): void;
}

/** The events above the panes of a chart: links to commands and plans. A group of events zooms in. */
export function MarkStrip({ marks, window, width, onWindow }: MarkStripProps) {
  const groups = markGroups(marks, window, width);
  return (
    <ul className="mark-strip" aria-label="Events">
      {groups.map(({ left, marks: group }) => (
        <li key={group[0]?.key} style={{ left: `${left * 100}%` }}>
          {group.length === 1 ? (
            <Mark of={group[0] as ChartMark} />
          ) : (
            <button
              type="button"
              className="chart-mark many"
              title={group.slice(-8).map(textOf).join('\n')}
              aria-label={`${counted(group.length, 'event')} from ${fullTime(group[0]?.at ?? 0)}: zoom in`}
              onClick={() => onWindow(windowAround(group))}
            >
              {group.length > 99 ? '99+' : group.length}
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

const textOf = ({ at, text }: ChartMark): string => `${fullTime(at)}: ${text}`;

function windowAround(group: readonly ChartMark[]): TimeWindow {
  const [first, last] = [group[0]?.at ?? 0, group.at(-1)?.at ?? 0];
  const margin = Math.max(5_000, (last - first) / 4);
  return windowBetween(first - margin, last + margin);
}

function Mark({ of: mark }: { of: ChartMark }) {
  const { kind, href } = mark;
  const text = textOf(mark);
  return href === null ? (
    <span className="chart-mark" role="img" aria-label={text} title={text}>
      <Icon name={icons[kind]} />
    </span>
  ) : (
    <Link className="chart-mark" href={href} aria-label={text} title={text}>
      <Icon name={icons[kind]} />
    </Link>
  );
}
