import { type RefObject, useEffect, useState } from 'react';
import { Link } from 'wouter';
import { DAY_MS } from '../../../src/domain/day.ts';
import { forEachLeaf, untimedReport } from '../../../src/domain/history/sample.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { stateWord } from '../devices/main-value.ts';
import { useNow } from '../ui/clock.ts';
import { formatValue, valueName } from '../ui/values.tsx';
import { chartHref, MAX_CHARTED_SERIES } from './chart-window.ts';
import { chartRange, type TrendPoint, trendPath } from './trends.ts';
import './trend.css';

const WIDTH = 96;
const HEIGHT = 22;

/** The paths of the numbers, booleans and texts of a reported property that the history has. */
export function chartedProperties(name: string, value: Json | undefined): string[] {
  const found: string[] = [];
  forEachLeaf(untimedReport({ [name]: value ?? null }), (property) => found.push(property));
  return found;
}

/** The paths of properties that have a sparkline: numbers and booleans at the top of the state. */
export const trendProperties = (state: JsonObject): string[] =>
  Object.entries(state).flatMap(([name, value]) =>
    typeof value === 'number' || typeof value === 'boolean' ? chartedProperties(name, value) : [],
  );

interface PropertyTrendProps {
  deviceId: string;
  name: string;
  value: Json | undefined;
  points: readonly TrendPoint[] | undefined;
  /** Whether a number lasts until the next one, as a boolean does. */
  isStepped: boolean;
}

/** The last 24 hours of a property, which link to its chart; a property without a sparkline has a link alone. */
export function PropertyTrend({ deviceId, name, value, points, isStepped }: PropertyTrendProps) {
  const now = Math.floor(useNow() / 60_000) * 60_000;
  const properties = chartedProperties(name, value).slice(0, MAX_CHARTED_SERIES);
  if (properties.length === 0) return null;
  const isBoolean = typeof value === 'boolean';
  const wordOf = (state: boolean): string => stateWord(name, state) ?? formatValue(state);
  const box = {
    from: now - DAY_MS,
    to: now,
    width: WIDTH,
    height: HEIGHT,
    isBoolean,
    isStepped: isStepped || isBoolean,
  };
  const path = points === undefined ? '' : trendPath(points, box);
  return (
    <Link
      className="trend"
      href={chartHref(deviceId, properties, chartRange(points, now))}
      aria-label={`Chart of ${valueName(name)}`}
      title={
        path === '' ? 'History' : `Last 24 hours${isBoolean ? `: up is ${wordOf(true)}, down is ${wordOf(false)}` : ''}`
      }
    >
      {path === '' ? (
        'Chart'
      ) : (
        <svg viewBox={`-2 -2 ${WIDTH + 4} ${HEIGHT + 4}`} preserveAspectRatio="none" aria-hidden="true">
          <path d={path} />
        </svg>
      )}
    </Link>
  );
}

/** Whether an element has been near the visible part of the page. */
export function useWasVisible(element: RefObject<HTMLElement | null>): boolean {
  const [isVisible, setVisible] = useState(false);
  useEffect(() => {
    const shown = element.current;
    if (shown === null || isVisible) return;
    const seen = new IntersectionObserver((entries) => setVisible(entries.some((entry) => entry.isIntersecting)), {
      rootMargin: '200px',
    });
    seen.observe(shown);
    return () => seen.disconnect();
  }, [element, isVisible]);
  return isVisible;
}
