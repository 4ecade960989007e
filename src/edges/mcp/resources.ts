import { ErrorCode, McpError, type ReadResourceResult, type Resource } from '@modelcontextprotocol/sdk/types.js';
import type { Outcome, Refusal } from '../../domain/refusals.ts';
import type { Json, JsonObject, Uuid } from '../../domain/values.ts';
import { getDevice, listDevices } from '../../operations/devices/devices.ts';
import { getHome, listHomes, listRooms } from '../../operations/homes/homes.ts';
import type { Caller, Operation } from '../../operations/operation.ts';
import { callerRefusal, type Perform } from '../../operations/perform.ts';
import { getPlan, listPlans } from '../../operations/plans/plan-view.ts';
import { isUuid } from '../shared/live/subscription.ts';
import { sanitizeJson, sanitizeText } from './sanitizer.ts';
import { refusalBody, UNTRUSTED_META_KEY } from './tool-results.ts';

export const resourceKinds = ['homes', 'devices', 'plans'] as const;
export type ResourceKind = (typeof resourceKinds)[number];

interface ResourceDefinition {
  title: string;
  description: string;
  /** Who may read it is who may call this. */
  operation: Operation;
  /** Its list and the member with the entries. */
  list: Operation;
  nameOf(entry: JsonObject): Json | undefined;
  read(perform: Perform, caller: Caller, id: Uuid): Promise<Outcome<JsonObject>>;
}

export const resources: Readonly<Record<ResourceKind, ResourceDefinition>> = {
  homes: {
    title: 'A home',
    description: 'A home with its rooms and its devices; it changes when one of the devices does.',
    operation: getHome,
    list: listHomes,
    nameOf: ({ home_name }) => home_name,
    read: readHome,
  },
  devices: {
    title: 'A device',
    description: 'All that is kept of a device, with the state that it reported last.',
    operation: getDevice,
    list: listDevices,
    nameOf: ({ name, device_type }) => name ?? device_type,
    read: (perform, caller, id) => bodyOf(perform, getDevice, { id }, caller),
  },
  plans: {
    title: 'A plan',
    description: 'How far a plan is, step by step.',
    operation: getPlan,
    list: listPlans,
    nameOf: ({ name }) => name ?? 'Plan',
    read: (perform, caller, id) => bodyOf(perform, getPlan, { id }, caller),
  },
};

/** Of a home's devices; the rest is for list_devices. */
const MAX_DEVICES = 200;

async function readHome(perform: Perform, caller: Caller, homeId: Uuid): Promise<Outcome<JsonObject>> {
  const home = await bodyOf(perform, getHome, { homeId }, caller);
  if (!home.ok) return home;
  const rooms = await bodyOf(perform, listRooms, { homeId, limit: MAX_DEVICES }, caller);
  if (!rooms.ok) return rooms;
  const whole = { ...home.value, rooms: rooms.value.rooms as Json };
  // Who may see the home need not be allowed to see its devices.
  if (callerRefusal(listDevices, caller) !== null) return { ok: true, value: whole };
  const devices = await bodyOf(perform, listDevices, { home_id: homeId, limit: MAX_DEVICES }, caller);
  return devices.ok ? { ok: true, value: { ...whole, devices: devices.value.devices as Json } } : devices;
}

async function bodyOf(
  perform: Perform,
  operation: Operation,
  input: JsonObject,
  caller: Caller,
): Promise<Outcome<JsonObject>> {
  const outcome = await perform(operation, { input, caller, keyed: null });
  return outcome.ok ? { ok: true, value: outcome.value.body as JsonObject } : outcome;
}

export const uriOf = (kind: ResourceKind, id: Uuid): string => `twin://${kind}/${id}`;

export const resourceTemplates = resourceKinds.map((kind) => ({
  name: kind,
  uriTemplate: `twin://${kind}/{id}`,
  title: resources[kind].title,
  description: resources[kind].description,
  mimeType: 'application/json',
}));

/** What a URI names; null where it is none of ours. */
export function parseResourceUri(uri: string): { kind: ResourceKind; id: Uuid; uri: string } | null {
  const [, found, id = ''] = /^twin:\/\/([a-z]+)\/([^/]+)$/i.exec(uri) ?? [];
  const kind = resourceKinds.find((known) => known === found?.toLowerCase());
  if (kind === undefined || !isUuid(id)) return null;
  return { kind, id: id.toLowerCase(), uri };
}

/** MCP's own code for a resource that is not there; the others have only the general one. */
const NOT_FOUND = -32002;

export function refusalError(refusal: Refusal, uri?: string): McpError {
  const told = refusalBody(refusal);
  const code = refusal.code === 'NOT_FOUND' ? NOT_FOUND : ErrorCode.InvalidRequest;
  return new McpError(code, `${told.code}: ${told.detail} Next: ${told.next}`, { ...told, ...(uri && { uri }) });
}

/** Throws where there is no such resource, or it is not for this caller. */
export async function readResource(perform: Perform, caller: Caller, uri: string): Promise<ReadResourceResult> {
  const named = parseResourceUri(uri);
  if (named === null) throw refusalError({ code: 'NOT_FOUND', detail: 'There is no such resource.' }, uri);
  const read = await resources[named.kind].read(perform, caller, named.id);
  if (!read.ok) throw refusalError(read.refusal, uri);
  const text = JSON.stringify(sanitizeJson(read.value));
  return { contents: [{ uri, mimeType: 'application/json', text, _meta: { [UNTRUSTED_META_KEY]: true } }] };
}

/** A page of what the caller may read: homes, then devices, then plans. Throws where the cursor is none. */
export async function listResources(
  perform: Perform,
  caller: Caller,
  cursor: string | undefined,
): Promise<{ resources: Resource[]; nextCursor?: string }> {
  const start = parseCursor(cursor);
  const kinds = resourceKinds.filter((kind) => callerRefusal(resources[kind].list, caller) === null);
  for (const kind of kinds.slice(start.kind === null ? 0 : kinds.indexOf(start.kind))) {
    const after = kind === start.kind ? start.after : null;
    const body = await bodyOf(perform, resources[kind].list, after === null ? {} : { cursor: after }, caller);
    if (!body.ok) throw refusalError(body.refusal);
    const entries = body.value[kind] as JsonObject[];
    const following = kinds[kinds.indexOf(kind) + 1];
    const next = body.value.next_cursor as string | null;
    const nextCursor = next === null ? following && `${following}.` : `${kind}.${next}`;
    // A page without anything is none: the kind after it begins it.
    if (entries.length === 0 && next === null && following !== undefined) continue;
    return { resources: entries.map((entry) => toResource(kind, entry)), ...(nextCursor && { nextCursor }) };
  }
  return { resources: [] };
}

function parseCursor(cursor: string | undefined): { kind: ResourceKind | null; after: string | null } {
  if (cursor === undefined) return { kind: null, after: null };
  const [, found, after = ''] = /^([a-z]+)\.(.*)$/.exec(cursor) ?? [];
  const kind = resourceKinds.find((known) => known === found);
  if (kind === undefined) throw new McpError(ErrorCode.InvalidParams, 'The cursor is not one of this list.');
  return { kind, after: after === '' ? null : after };
}

function toResource(kind: ResourceKind, entry: JsonObject): Resource {
  const name = resources[kind].nameOf(entry);
  return {
    uri: uriOf(kind, entry.id as Uuid),
    name: sanitizeText(typeof name === 'string' ? name : kind, 100),
    description: resources[kind].description,
    mimeType: 'application/json',
    _meta: { [UNTRUSTED_META_KEY]: true },
  };
}
