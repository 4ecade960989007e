import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { DataRefused } from '../../../src/store/contract.ts';
import { assertStorable } from '../../../src/store/postgres/binary-array.ts';

// PostgreSQL's types and NOT NULL, as far as they reject values that the service could write. Codes are SQLSTATEs.

/** Checks a value and returns the stored form. The caller checks for null. */
export type Column = (value: unknown, name: string) => unknown;

export function refuse(sqlState: string, message: string): never {
  throw new DataRefused(sqlState, message);
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const MAX_BIGINT = 2 ** 63;
const MAX_INTEGER = 2 ** 31;
/** Limit of a B-tree entry. PostgreSQL compresses first, and so accepts longer values with few different characters. */
const MAX_INDEXED_BYTES = 2_600;

export const isUuid = (value: unknown): value is string => typeof value === 'string' && UUID.test(value);

export const uuid: Column = (value, name) =>
  isUuid(value) ? value.toLowerCase() : refuse('22P02', `invalid input syntax for type uuid: ${name}`);

/** A text parameter is UTF-8: an unpaired surrogate is replaced before it is sent, and NUL is rejected. */
export const text: Column = (value, name) => {
  const checked = typeof value === 'string' ? value.toWellFormed() : JSON.stringify(value);
  return checked.includes('\0') ? refuse('22021', `invalid byte sequence for encoding "UTF8": ${name}`) : checked;
};

export const indexedText: Column = (value, name) => {
  const checked = text(value, name) as string;
  if (Buffer.byteLength(checked) > MAX_INDEXED_BYTES) refuse('54000', `index row size exceeds the maximum: ${name}`);
  return checked;
};

const wholeNumber =
  (limit: number): Column =>
  (value, name) => {
    if (typeof value !== 'number' || !Number.isInteger(value)) return refuse('22P02', `invalid input syntax: ${name}`);
    return value < limit && value >= -limit ? value + 0 : refuse('22003', `value out of range: ${name}`);
  };
export const bigint = wholeNumber(MAX_BIGINT);
export const integer = wholeNumber(MAX_INTEGER);

export const double: Column = (value, name) =>
  typeof value === 'number' ? value : refuse('22P02', `invalid input syntax for type double precision: ${name}`);

export const boolean: Column = (value, name) =>
  typeof value === 'boolean' ? value : refuse('22P02', `invalid input syntax for type boolean: ${name}`);

/** The value as `jsonb` returns it: a copy without undefined members. NUL and unpaired surrogates are rejected. */
export const jsonb: Column = (value): Json => JSON.parse(assertStorable(JSON.stringify(value)));

export const oneOf =
  (...values: readonly string[]): Column =>
  (value, name) =>
    values.includes(value as string) ? value : refuse('23514', `new row violates check constraint: ${name}`);

/** Foreign keys are checked after everything else of the statement is written. */
export function references(exists: boolean, constraint: string): void {
  if (!exists) refuse('23503', `violates foreign key constraint "${constraint}"`);
}

/** A column that may be null. */
export interface Nullable {
  nullable: Column;
}
export const nullable = (column: Column): Nullable => ({ nullable: column });

export type Columns<Row> = Readonly<Record<keyof Row, Column | Nullable>>;

/** The stored row: the columns' members of `input`, each checked, or null. */
export function rowOf<Row extends object>(columns: Columns<Row>, input: object): Row {
  const row: Record<string, unknown> = {};
  const missing: string[] = [];
  for (const [name, column] of Object.entries(columns) as [string, Column | Nullable][]) {
    const value = (input as Record<string, unknown>)[name] ?? null;
    const optional = typeof column === 'object';
    if (value === null) {
      row[name] = null;
      if (!optional) missing.push(name);
    } else row[name] = (optional ? column.nullable : column)(value, name);
  }
  if (missing.length > 0) refuse('23502', `null value violates not-null constraint: ${missing.join(', ')}`);
  return row as Row;
}

/** A deep copy without undefined members; functions are kept. */
export function copyOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf) as T;
  if (value instanceof Uint8Array) return Uint8Array.from(value) as T;
  if (value instanceof Set) return new Set([...value].map(copyOf)) as T;
  if (value instanceof Map) return new Map([...value].map(([key, member]) => [key, copyOf(member)])) as T;
  const copy: JsonObject = {};
  for (const name of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[name];
    if (member === undefined) continue;
    // Assignment to "__proto__" would set the prototype.
    if (name === '__proto__')
      Object.defineProperty(copy, name, { value: copyOf(member), enumerable: true, writable: true });
    else copy[name] = copyOf(member) as Json;
  }
  return copy as T;
}
