import { entryBytes, isObject, jsonBytes, jsonEqual, setOwn } from './json/value.ts';
import type { Capability } from './manifest.ts';
import type { Json, JsonObject, Uuid } from './values.ts';

/** Maximum size of a reported state's JSON text after the merge (contract §4). */
export const MAX_STATE_BYTES = 32 * 1024;

/** A device's reported state and the size of its JSON text, kept so that a patch costs only what it changes. */
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
      /** True if the report contains the complete new state. */
      coversState: boolean;
    }
  | { ok: false; code: 'STATE_TOO_LARGE' | 'PAYLOAD_INVALID' };

/**
 * The twin after a report: merged by RFC 7396, or replaced if `full`. The old state is not mutated, and unchanged parts
 * are shared. A patch without effect returns the same `state` object. A patch that covers the whole state becomes the
 * new state, so the caller must not use the report afterwards. `bytes` is the size of a full report's JSON text, if
 * known.
 */
export function applyReport(twin: Twin, report: JsonObject, full = false, bytes: number | null = null): ReportResult {
  if (full) return withinLimit({ state: report, bytes: bytes ?? jsonBytes(report) }, true);
  const merge: Merge = { bytes: twin.bytes, coversTarget: true };
  const state = mergeInto(twin.state, report, 0, merge);
  return withinLimit({ state, bytes: merge.bytes }, merge.coversTarget);
}

function withinLimit(twin: Twin, coversState: boolean): ReportResult {
  if (twin.bytes <= MAX_STATE_BYTES) return { ok: true, twin, coversState };
  return { ok: false, code: Number.isFinite(twin.bytes) ? 'STATE_TOO_LARGE' : 'PAYLOAD_INVALID' };
}

interface Merge {
  /** Size of the complete state's JSON text so far. */
  bytes: number;
  /** Whether the last merged patch contains its complete new target. */
  coversTarget: boolean;
}

// JSON Merge Patch: null removes, objects merge, everything else replaces. Most members of a report are unchanged, so
// they are compared first; the target is copied only if the patch does not cover it.
function mergeInto(target: JsonObject, patch: JsonObject, depth: number, merge: Merge): JsonObject {
  /** Members of the target that the patch names. */
  let named = 0;
  let covers = true;
  let changed: [string, Json][] | undefined;
  let removed: Set<string> | undefined;
  for (const key in patch) {
    const value = patch[key] as Json;
    // A member that `target` inherits is not JSON, so it is never equal.
    if (value !== null && value === target[key]) {
      named += 1;
      continue;
    }
    const old = Object.hasOwn(target, key) ? (target[key] as Json) : undefined;
    if (old !== undefined) named += 1;
    if (value === null) {
      covers = false;
      if (old === undefined) continue;
      merge.bytes -= entryBytes(key, old, depth);
      removed ??= new Set();
      removed.add(key);
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
      if (!Number.isFinite(merge.bytes)) return target; // nested too deeply: the caller refuses
      merged = mergeInto(isObject(old) ? old : {}, value, depth + 1, merge);
      covers &&= merge.coversTarget;
      if (merged === old) continue;
    }
    changed ??= [];
    changed.push([key, merged]);
  }
  merge.coversTarget = covers && hasOnly(target, named);
  if (changed === undefined && removed === undefined) return target;
  let next = patch;
  if (!merge.coversTarget) {
    next = removed === undefined ? { ...target } : without(target, removed);
    if (changed !== undefined) for (const [key, value] of changed) setOwn(next, key, value);
  }
  merge.bytes += emptyBrace(next) - emptyBrace(target);
  return next;
}

/** Whether the object has at most `count` members. */
function hasOnly(object: JsonObject, count: number): boolean {
  let members = 0;
  for (const _ in object) if (++members > count) return false;
  return true;
}

// Rebuilds the object, because `delete` permanently turns an object into a slow dictionary.
function without(source: JsonObject, removed: Set<string>): JsonObject {
  const rest: JsonObject = {};
  for (const key of Object.keys(source)) if (!removed.has(key)) setOwn(rest, key, source[key] as Json);
  return rest;
}

// `entryBytes` includes a comma or the closing brace, so only `{}` needs its closing brace counted.
function emptyBrace(object: JsonObject): 0 | 1 {
  for (const _ in object) return 0;
  return 1;
}

/** Whether `state` contains `expected`: objects by subset at every depth, everything else by exact JSON equality. */
export function contains(state: Json, expected: Json): boolean {
  if (!isObject(expected)) return jsonEqual(state, expected);
  return (
    isObject(state) &&
    Object.keys(expected).every(
      (key) => Object.hasOwn(state, key) && contains(state[key] as Json, expected[key] as Json),
    )
  );
}

/** The parameter that a template node `{"$param": "level"}` refers to; undefined for any other node. */
export function paramOf(node: Json): string | undefined {
  if (!isObject(node) || !Object.hasOwn(node, '$param') || Object.keys(node).length !== 1) return undefined;
  return typeof node.$param === 'string' ? node.$param : undefined;
}

/**
 * The state that proves an action: the template with the parameters filled in, without the nodes of parameters that
 * were not given. Null if nothing remains.
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

/** Properties of the state that a command would change. */
export type StateChanges = Record<string, { from: Json; to: Json }>;

/** Top-level properties that do not yet match. `from` is null for a property that was never reported. */
export function changesBetween(current: JsonObject, expected: JsonObject): StateChanges {
  const changes = new Map<string, { from: Json; to: Json }>();
  for (const key of Object.keys(expected)) {
    const to = expected[key] as Json;
    const from = Object.hasOwn(current, key) ? (current[key] as Json) : undefined;
    if (from === undefined || !contains(from, to)) changes.set(key, { from: from ?? null, to });
  }
  return Object.fromEntries(changes); // defines own properties, so `__proto__` is an ordinary name
}

/** Result of a dry run; `expected` and `changes` are null if the preview cannot be computed (contract §5). */
export interface Preview {
  /** The reported values of the properties in `expected`, without those that were never reported. */
  current: JsonObject;
  expected: JsonObject | null;
  changes: StateChanges | null;
  /** For `update_firmware`. */
  firmware?: FirmwarePreview;
  /** Missing where an earlier version made the preview. */
  device?: PreviewedDevice;
}

/** By what a person recognizes the device: a confirmation covers it, so that another name or place is previewed again. */
export interface PreviewedDevice {
  name: string | null;
  home_id: Uuid | null;
  room_id: Uuid | null;
}

/** The release that an update installs. */
export interface FirmwarePreview {
  version: string;
  /** Host, with the port unless it is the scheme's, that the device downloads from. */
  url_host: string | null;
  /** SHA-256, hex. */
  checksum: string | null;
  /** Null if it was released by an earlier version of the service. */
  released_by: Uuid | null;
}

export function preview(
  capability: Pick<Capability, 'supportsDryRun' | 'expectedState'>,
  current: JsonObject,
  params: JsonObject,
): Preview {
  const expected = capability.supportsDryRun ? expectedState(capability.expectedState, params) : null;
  return namedProperties({ current, expected, changes: expected && changesBetween(current, expected) });
}

/**
 * Without the properties of the state that the command does not name: whoever may read commands need not be allowed to
 * read devices.
 */
export function namedProperties(whole: Preview): Preview {
  const names = Object.keys(whole.expected ?? {}).filter((name) => Object.hasOwn(whole.current, name));
  return { ...whole, current: Object.fromEntries(names.map((name) => [name, whole.current[name] as Json])) };
}
