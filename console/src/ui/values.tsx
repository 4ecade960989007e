import type { ReactNode } from 'react';
import { nameWithoutUnit, unitInName } from '../../../src/domain/units.ts';
import { humanize } from './text-format.ts';
import './values.css';

/** The unit of a property or parameter by its path, such as `color.hue`. */
export type UnitOf = (path: string) => string | undefined;

/** The name of a property for people, by its path and its last name. */
export type NameOf = (path: string, name: string) => string;

/** A name as it is shown next to a value with its unit: `power_w` → `power`. */
export const valueName = (name: string): string => humanize(nameWithoutUnit(name));

/** `20.8 °C`, `40 %`, `30°`. */
export const withUnit = (text: string, unit: string | undefined): string =>
  unit === undefined ? text : `${text}${unit === '°' ? '' : '\u00a0'}${unit}`;

/**
 * A value as text; objects with nested objects are shown as JSON, a `writeOnly` parameter as not shown. Numbers have the unit
 * of their path.
 */
export function formatValue(
  value: unknown,
  path = '',
  unitOf: UnitOf = unitInName,
  nameOf: NameOf = (_, name) => valueName(name),
): string {
  if (value === undefined || value === null) return '—';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') {
    return withUnit(value.toLocaleString(undefined, { maximumFractionDigits: 6 }), unitOf(path));
  }
  if (typeof value === 'string') return value;
  const inner = Object.entries(value);
  if (inner.length === 1 && inner[0]?.[0] === 'write_only' && inner[0][1] === true) return 'not shown';
  const isFlat = !Array.isArray(value) && inner.length > 0 && inner.every(([, one]) => typeof one !== 'object');
  return isFlat
    ? inner
        .map(([name, one]) => {
          const at = path === '' ? name : `${path}.${name}`;
          return `${nameOf(at, name)} ${formatValue(one, at, unitOf)}`;
        })
        .join(', ')
    : JSON.stringify(value);
}

const LONG = 400;
const BEGINNING = 200;

interface ValueProps {
  of: unknown;
  path?: string;
  unitOf?: UnitOf;
  nameOf?: NameOf;
}

/** A value; long ones are collapsed, as a device may report thousands of characters. */
export function Value({ of, path, unitOf, nameOf }: ValueProps) {
  const text = formatValue(of, path, unitOf, nameOf);
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

/** Several values on one line, truncated; those of more than one have their names. */
export function formatBrief(values: Readonly<Record<string, unknown>>, unitOf?: UnitOf): string {
  const entries = Object.entries(values);
  const text = entries
    .map(([name, value]) => `${entries.length > 1 ? `${valueName(name)} ` : ''}${formatValue(value, name, unitOf)}`)
    .join(', ');
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
export function ObjectMembers({ of, unitOf }: { of: Readonly<Record<string, unknown>>; unitOf?: UnitOf }) {
  const entries = Object.entries(of);
  return entries.length === 0 ? null : (
    <Facts>
      {entries.map(([name, value]) => (
        <Fact key={name} name={valueName(name)}>
          <Value of={value} path={name} {...(unitOf !== undefined && { unitOf })} />
        </Fact>
      ))}
    </Facts>
  );
}
