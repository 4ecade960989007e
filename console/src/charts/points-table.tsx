import { useMemo } from 'react';
import { Empty } from '../ui/feedback.tsx';
import { dateAndTime } from '../ui/time.tsx';
import { type Column, VirtualTable } from '../ui/virtual-table.tsx';
import { nameIn } from './chart-view.tsx';
import type { TimeWindow } from './chart-window.ts';
import { numberText, type PointRow, pointRows } from './readout.ts';
import type { ShownSeries } from './use-chart.ts';

const limitText = (value: number | null, { series: { unit } }: PointRow): string =>
  value === null ? '' : numberText(value, unit);

/** On two lines, which fit into a row of a narrow table. */
function PointTime({ at }: { at: number }) {
  const [date, time] = dateAndTime(new Date(at).toISOString());
  return (
    <time dateTime={new Date(at).toISOString()}>
      <span className="point-time">{date}</span> <span className="point-time">{time}</span>
    </time>
  );
}

const columnsOf = (series: readonly ShownSeries[]): Column<PointRow>[] => [
  { title: 'Time', width: 'minmax(6rem, 1.2fr)', cell: ({ at }) => <PointTime at={at} /> },
  { title: 'Property', width: 'minmax(5rem, 1.5fr)', cell: (row) => nameIn(row.series, series) },
  {
    title: 'Value',
    width: 'minmax(5.5rem, 1fr)',
    cell: ({ value, series: { unit } }) =>
      typeof value === 'number' ? numberText(value, unit) : <span title={value}>{value}</span>,
  },
  { title: 'Lowest', width: 'minmax(4rem, 1fr)', hideOnNarrow: true, cell: (row) => limitText(row.min, row) },
  { title: 'Highest', width: 'minmax(4rem, 1fr)', hideOnNarrow: true, cell: (row) => limitText(row.max, row) },
];

/** The points of a chart as a table, newest first. */
export function PointsTable({ series, window }: { series: readonly ShownSeries[]; window: TimeWindow }) {
  const rows = useMemo(() => pointRows(series, window), [series, window]);
  const columns = useMemo(() => columnsOf(series), [series]);
  return rows.length === 0 ? (
    <Empty icon="search" title="No values in this time." />
  ) : (
    <div className="points-table">
      <VirtualTable
        label="Values"
        columns={columns}
        rows={rows}
        keyOf={({ key }) => key}
        isComplete
        loadMore={() => {}}
      />
    </div>
  );
}
