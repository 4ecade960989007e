import type { ReactNode } from 'react';
import { humanize } from './text-format.ts';
import './values.css';

/** A value as text; objects with nested objects are shown as JSON, a `writeOnly` parameter as not shown. */
export function formatValue(value: unknown): string {
  if (value === undefined || value === null) return '—';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return value.toLocaleString(undefined, { maximumFractionDigits: 6 });
  if (typeof value === 'string') return value;
  const inner = Object.entries(value);
  if (inner.length === 1 && inner[0]?.[0] === 'write_only' && inner[0][1] === true) return 'not shown';
  const isFlat = !Array.isArray(value) && inner.length > 0 && inner.every(([, one]) => typeof one !== 'object');
  return isFlat
    ? inner.map(([name, one]) => `${humanize(name)} ${formatValue(one)}`).join(', ')
    : JSON.stringify(value);
}

const LONG = 400;
const BEGINNING = 200;

/** A value; long ones are collapsed, as a device may report thousands of characters. */
export function Value({ of }: { of: unknown }) {
  const text = formatValue(of);
  if (text.length <= LONG) return <span className="value">{text}</span>;
  return (
    <details className="value">
      <summary>
        {text.slice(0, BEGINNING)}… <span className="quiet small">({text.length.toLocaleString()} characters)</span>
      </summary>
      {text}
    </details>
  );
}

/** Several values on one line, truncated. */
export function formatBrief(values: Readonly<Record<string, unknown>>): string {
  const text = Object.values(values).map(formatValue).join(', ');
  return text.length <= BEGINNING ? text : `${text.slice(0, BEGINNING)}…`;
}

/** A list of names and values. */
export const Facts = ({ children }: { children: ReactNode }) => <dl className="facts">{children}</dl>;

export const Fact = ({ name, children }: { name: string; children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** The members of an object; renders nothing if it has none. */
export function ObjectMembers({ of }: { of: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(of);
  return entries.length === 0 ? null : (
    <Facts>
      {entries.map(([name, value]) => (
        <Fact key={name} name={humanize(name)}>
          <Value of={value} />
        </Fact>
      ))}
    </Facts>
  );
}
