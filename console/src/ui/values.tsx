import type { ReactNode } from 'react';
import { plain } from './words.ts';
import './values.css';

/** A value as people read it; what is nested deeper than once stays JSON. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return '—';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return value.toLocaleString(undefined, { maximumFractionDigits: 6 });
  if (typeof value === 'string') return value;
  const inner = Object.entries(value);
  const isFlat = !Array.isArray(value) && inner.length > 0 && inner.every(([, one]) => typeof one !== 'object');
  return isFlat ? inner.map(([name, one]) => `${plain(name)} ${shown(one)}`).join(', ') : JSON.stringify(value);
}

export const Value = ({ of }: { of: unknown }) => <span className="value">{shown(of)}</span>;

/** Names and what they stand for. */
export const Facts = ({ children }: { children: ReactNode }) => <dl className="facts">{children}</dl>;

export const Fact = ({ name, children }: { name: string; children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** The members of an object; nothing where it has none. */
export function Members({ of }: { of: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(of);
  return entries.length === 0 ? null : (
    <Facts>
      {entries.map(([name, value]) => (
        <Fact key={name} name={plain(name)}>
          <Value of={value} />
        </Fact>
      ))}
    </Facts>
  );
}
