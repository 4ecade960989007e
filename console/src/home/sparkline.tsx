import { useEffect, useRef } from 'react';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { pageColour } from '../ui/colours.ts';
import type { Series } from './counters.ts';
import { minuteOf, minuteTicks, type Rates, windowOf } from './rate-window.ts';

const HEIGHT = 96;

/** Line chart of a rate over time, with gaps where it is unknown. The latest value is also shown as text next to it. */
export function Sparkline({ rates, series, label }: { rates: Rates; series: Series; label: string }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(null);
  const shown = useRef({ rates, series });
  shown.current = { rates, series };
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new UPlot(optionsOf(element.clientWidth, pageColour), [[], []], element);
      setData(plot.current, shown.current);
    };
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const themed = new MutationObserver(draw);
    const sized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    draw();
    dark.addEventListener('change', draw);
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    sized.observe(element);
    return () => {
      dark.removeEventListener('change', draw);
      themed.disconnect();
      sized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);
  useEffect(() => {
    if (plot.current !== null) setData(plot.current, { rates, series });
  }, [rates, series]);
  return <div ref={place} className="live-line" role="img" aria-label={label} />;
}

function setData(plot: UPlot, { rates, series }: { rates: Rates; series: Series }): void {
  const [min, max] = windowOf(rates, Date.now() / 1000);
  plot.batch(() => {
    plot.setData([[...rates.times], [...rates[series]]], false);
    plot.setScale('x', { min, max });
  });
}

/** Rounds up to 1, 2 or 5 times a power of ten, for the axis. */
function roundUp(value: number): number {
  if (!(value > 1)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

const optionsOf = (width: number, colour: (name: string) => string): UPlot.Options => ({
  width,
  height: HEIGHT,
  legend: { show: false },
  cursor: { show: false },
  padding: [6, 8, 0, 0],
  scales: { y: { range: (_, __, most) => [0, roundUp(most)] } },
  axes: [
    {
      size: 24,
      gap: 4,
      stroke: colour('--quiet'),
      font: '11px system-ui',
      grid: { show: false },
      ticks: { stroke: colour('--line'), width: 1, size: 4 },
      splits: ({ bbox }, _, least, most) => minuteTicks(least, most, bbox.width / devicePixelRatio),
      values: (_, splits) => splits.map(minuteOf),
    },
    {
      size: 34,
      stroke: colour('--quiet'),
      font: '11px system-ui',
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
      splits: (_, __, ___, most) => [0, most / 2, most],
    },
  ],
  series: [
    {},
    {
      stroke: colour('--accent'),
      width: 2,
      fill: `color-mix(in srgb, ${colour('--accent')} 14%, transparent)`,
      points: { show: false },
    },
  ],
});
