import { isRestricted } from '../../../src/domain/capability-registry.ts';
import { isObject } from '../../../src/domain/json/value.ts';
import { type SafetyClass, safetyClasses } from '../../../src/domain/manifest.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import type { ManifestRecord } from './manifest.tsx';

// A manifest while it is edited. It is JSON text; the form changes single members of it.

/** The text of a manifest as it can be published: without ids, and without actions that are internal to the protocol. */
export function draftOf(manifest: ManifestRecord | null): string {
  if (manifest === null) return format({ capabilities: [] });
  const capabilities = manifest.capabilities
    .filter(({ action }) => !isRestricted(action))
    .map(({ id: _, ...capability }) => capability as unknown as JsonObject);
  const { category, properties } = manifest;
  return format({
    ...(category !== null && { category }),
    capabilities,
    ...(properties !== undefined && { properties: properties as JsonObject }),
  });
}

const format = (value: Json): string => JSON.stringify(value, null, 2);

export interface DraftAction {
  action: string;
  safetyClass: SafetyClass | null;
}

export interface ManifestDraft {
  body: JsonObject;
  /** In the order of the text; null for an entry without a name. */
  actions: (DraftAction | null)[];
}

/** Null if the text is not an object with a list of capabilities. */
export function readDraft(text: string): ManifestDraft | null {
  const body = parse(text);
  if (!isObject(body) || !Array.isArray(body.capabilities)) return null;
  return { body, actions: body.capabilities.map(actionOf) };
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return null;
  }
}

function actionOf(entry: Json): DraftAction | null {
  if (!isObject(entry) || typeof entry.action !== 'string') return null;
  const known = safetyClasses.find((one) => one === entry.safetyClass);
  return { action: entry.action, safetyClass: known ?? null };
}

/** The text with another class of the action at this index; without one, the service chooses it. */
export function withClass({ body }: ManifestDraft, index: number, safetyClass: SafetyClass | null): string {
  return format({
    ...body,
    capabilities: (body.capabilities as JsonObject[]).map((entry, n) => {
      if (n !== index) return entry;
      const { safetyClass: _, ...rest } = entry;
      return { ...rest, ...(safetyClass !== null && { safetyClass }) };
    }),
  });
}

/** The text without the action at this index. */
export const withoutAction = ({ body }: ManifestDraft, index: number): string =>
  format({ ...body, capabilities: (body.capabilities as Json[]).filter((_, n) => n !== index) });
