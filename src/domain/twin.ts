import { entryBytes, isObject, jsonBytes, jsonEqual, setOwn } from './json/value.ts';
import type { Capability } from './manifest.ts';
import type { Json, JsonObject } from './values.ts';

/** The JSON text of a reported state, after the merge (contract §4). */
export const MAX_STATE_BYTES = 32 * 1024;

/** A device's reported state and the size of its JSON text, which is carried along so that a patch costs what it touches. */
export interface Twin {
  readonly state: JsonObject;
  readonly bytes: number;
}

export const EMPTY_TWIN: Twin = { state: {}, bytes: 2 };

export const twinOf = (state: JsonObject): Twin => ({ state, bytes: jsonBytes(state) });

export type ReportResult =
  | {
      ok: true;
      twin: Twin;
      /** The report alone says what the state is now, member by member. */
      coversState: boolean;
    }
  | { ok: false; code: 'STATE_TOO_LARGE' | 'PAYLOAD_INVALID' };

/**
 * The twin after a report: merged by RFC 7396, or replaced when `full`. Nothing is mutated, and what the patch leaves alone is
 * shared; a patch without effect gives the same `state` object back, and one that says all of the state becomes it, so the caller
 * gives the report away.
 * `bytes` is the size of a full report's JSON text, where that is known.
 */
export function applyReport(twin: Twin, report: JsonObject, full = false, bytes: number | null = null): ReportResult {
  if (full) return bounded({ state: report, bytes: bytes ?? jsonBytes(report) }, true);
  const merge: Merge = { bytes: twin.bytes, coversTarget: true };
  const state = mergeInto(twin.state, report, 0, merge);
  return bounded({ state, bytes: merge.bytes }, merge.coversTarget);
}

function bounded(twin: Twin, whole: boolean): ReportResult {
  if (twin.bytes <= MAX_STATE_BYTES) return { ok: true, twin, coversState: whole };
  return { ok: false, code: Number.isFinite(twin.bytes) ? 'STATE_TOO_LARGE' : 'PAYLOAD_INVALID' };
}

interface Merge {
  /** The size of the whole state's JSON text so far. */
  bytes: number;
  /** Whether the last merged patch says all that its target is now. */
  coversTarget: boolean;
}

// JSON Merge Patch: null removes, objects merge, everything else replaces. Most of a report is as it was, so it is compared
// first; only what does not say all is copied.
function mergeInto(target: JsonObject, patch: JsonObject, depth: number, merge: Merge): JsonObject {
  /** Members of the target that the patch names. */
  let named = 0;
  let whole = true;
  let changed: [string, Json][] | undefined;
  let gone: Set<string> | undefined;
  for (const key in patch) {
    const value = patch[key] as Json;
    // What `target` only inherits is no JSON, and so is never the same.
    if (value !== null && value === target[key]) {
      named += 1;
      continue;
    }
    const old = Object.hasOwn(target, key) ? (target[key] as Json) : undefined;
    if (old !== undefined) named += 1;
    if (value === null) {
      whole = false;
      if (old === undefined) continue;
      merge.bytes -= entryBytes(key, old, depth);
      gone ??= new Set();
      gone.add(key);
      continue;
    }
    let merged: Json = value;
    if (!isObject(value)) {
      merge.bytes +=
        old === undefined ? entryBytes(key, value, depth) : jsonBytes(value, depth + 1) - jsonBytes(old, depth + 1);
    } else {
      merge.bytes += isObject(old)
        ? 0
        : old === undefined
          ? entryBytes(key, {}, depth)
          : jsonBytes({}, depth + 1) - jsonBytes(old, depth + 1);
      if (!Number.isFinite(merge.bytes)) return target; // too deep: the caller refuses
      merged = mergeInto(isObject(old) ? old : {}, value, depth + 1, merge);
      whole &&= merge.coversTarget;
      if (merged === old) continue;
    }
    changed ??= [];
    changed.push([key, merged]);
  }
  merge.coversTarget = whole && hasOnly(target, named);
  if (changed === undefined && gone === undefined) return target;
  let next = patch;
  if (!merge.coversTarget) {
    next = gone === undefined ? { ...target } : without(target, gone);
    if (changed !== undefined) for (const [key, value] of changed) setOwn(next, key, value);
  }
  merge.bytes += emptyBrace(next) - emptyBrace(target);
  return next;
}

/** Whether there are no more members than these. */
function hasOnly(object: JsonObject, count: number): boolean {
  let members = 0;
  for (const _ in object) if (++members > count) return false;
  return true;
}

// Rebuilt rather than deleted from: `delete` turns an object into a slow dictionary for the rest of its life.
function without(source: JsonObject, gone: Set<string>): JsonObject {
  const rest: JsonObject = {};
  for (const key of Object.keys(source)) if (!gone.has(key)) setOwn(rest, key, source[key] as Json);
  return rest;
}

// `{}` has a closing brace that no entry paid for.
function emptyBrace(object: JsonObject): 0 | 1 {
  for (const _ in object) return 0;
  return 1;
}

/** Whether `state` holds all of `expected`: objects by subset at every depth, everything else by exact JSON equality. */
export function contains(state: Json, expected: Json): boolean {
  if (!isObject(expected)) return jsonEqual(state, expected);
  return (
    isObject(state) &&
    Object.keys(expected).every(
      (key) => Object.hasOwn(state, key) && contains(state[key] as Json, expected[key] as Json),
    )
  );
}

/** The parameter a template node stands for, `{"$param": "level"}`; undefined for everything else. */
export function paramOf(node: Json): string | undefined {
  if (!isObject(node) || !Object.hasOwn(node, '$param') || Object.keys(node).length !== 1) return undefined;
  return typeof node.$param === 'string' ? node.$param : undefined;
}

/**
 * The state that proves an action: the template with the parameters filled in. What hangs on a parameter that was not
 * given is not expected; null when nothing is left to expect.
 */
export function expectedState(template: JsonObject | undefined, params: JsonObject): JsonObject | null {
  if (template === undefined) return null;
  const filled = fill(template, params);
  return isObject(filled) && Object.keys(filled).length > 0 ? filled : null;
}

function fill(node: Json, params: JsonObject): Json | undefined {
  const param = paramOf(node);
  if (param !== undefined) return Object.hasOwn(params, param) ? params[param] : undefined;
  if (Array.isArray(node)) {
    const items = node.map((item) => fill(item, params));
    return items.includes(undefined) ? undefined : (items as Json[]);
  }
  if (!isObject(node)) return node;
  const filled: JsonObject = {};
  for (const key of Object.keys(node)) {
    const value = fill(node[key] as Json, params);
    if (value !== undefined) setOwn(filled, key, value);
  }
  return filled;
}

export type Changes = Record<string, { from: Json; to: Json }>;

/** The top-level properties that are not yet as expected. `from` is null for a property that was never reported. */
export function changesBetween(current: JsonObject, expected: JsonObject): Changes {
  const changes = new Map<string, { from: Json; to: Json }>();
  for (const key of Object.keys(expected)) {
    const to = expected[key] as Json;
    const from = Object.hasOwn(current, key) ? (current[key] as Json) : undefined;
    if (from === undefined || !contains(from, to)) changes.set(key, { from: from ?? null, to });
  }
  return Object.fromEntries(changes); // defines properties, so `__proto__` stays a name
}

/** What a dry run shows; `expected` and `changes` are null where the preview cannot be computed (contract §5). */
export interface Preview {
  current: JsonObject;
  expected: JsonObject | null;
  changes: Changes | null;
}

export function preview(
  capability: Pick<Capability, 'supportsDryRun' | 'expectedState'>,
  current: JsonObject,
  params: JsonObject,
): Preview {
  const expected = capability.supportsDryRun ? expectedState(capability.expectedState, params) : null;
  return { current, expected, changes: expected && changesBetween(current, expected) };
}
