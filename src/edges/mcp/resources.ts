import { ErrorCode, McpError, type ReadResourceResult, type Resource } from '@modelcontextprotocol/sdk/types.js';
import type { Outcome, Refusal } from '../../domain/refusals.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Json, JsonObject, Uuid } from '../../domain/values.ts';
import { callerRefusal } from '../../operations/caller-authorization.ts';
import { getDevice, listDevices } from '../../operations/devices/devices.ts';
import { getHome, listHomes, listRooms } from '../../operations/homes/homes.ts';
import type { Caller, Operation } from '../../operations/operation.ts';
import type { Perform } from '../../operations/perform.ts';
import { getPlan, listPlans } from '../../operations/plans/plan-view.ts';
import { sanitizeJson, sanitizeText } from './sanitizer.ts';
import { refusalBody, UNTRUSTED_META_KEY } from './tool-results.ts';

export const resourceKinds = ['homes', 'devices', 'plans'] as const;
export type ResourceKind = (typeof resourceKinds)[number];

interface ResourceDefinition {
  title: string;
  description: string;
  /** Reading the resource needs the permissions of this operation. */
  operation: Operation;
  /** The operation that lists the resources. */
  list: Operation;
  nameOf(entry: JsonObject): Json | undefined;
  read(perform: Perform, caller: Caller, id: Uuid): Promise<Outcome<JsonObject>>;
}

export const resources: Readonly<Record<ResourceKind, ResourceDefinition>> = {
  homes: {
    title: 'A home',
    description: 'A home with its rooms and its devices. It is updated when one of the devices changes.',
    operation: getHome,
    list: listHomes,
    nameOf: ({ home_name }) => home_name,
    read: readHome,
  },
  devices: {
    title: 'A device',
    description: 'The full record of a device with its last reported state.',
    operation: getDevice,
    list: listDevices,
    nameOf: ({ name, device_type }) => name ?? device_type,
    read: (perform, caller, id) => bodyOf(perform, getDevice, { id }, caller),
  },
  plans: {
    title: 'A plan',
    description: 'The status of a plan and of each step.',
    operation: getPlan,
    list: listPlans,
    nameOf: ({ name }) => name ?? 'Plan',
    read: (perform, caller, id) => bodyOf(perform, getPlan, { id }, caller),
  },
};

/** Devices in a home resource. The others are available with list_devices. */
const MAX_DEVICES = 200;

async function readHome(perform: Perform, caller: Caller, homeId: Uuid): Promise<Outcome<JsonObject>> {
  const home = await bodyOf(perform, getHome, { homeId }, caller);
  if (!home.ok) return home;
  const rooms = await bodyOf(perform, listRooms, { homeId, limit: MAX_DEVICES }, caller);
  if (!rooms.ok) return rooms;
  const homeWithRooms = { ...home.value, rooms: rooms.value.rooms as Json };
  // The caller may read homes but not devices.
  if (callerRefusal(listDevices, caller) !== null) return { ok: true, value: homeWithRooms };
  const devices = await bodyOf(perform, listDevices, { home_id: homeId, limit: MAX_DEVICES }, caller);
  return devices.ok ? { ok: true, value: { ...homeWithRooms, devices: devices.value.devices as Json } } : devices;
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

/** Null if the URI is not one of this service. */
export function parseResourceUri(uri: string): { kind: ResourceKind; id: Uuid; uri: string } | null {
  const [, found, id = ''] = /^twin:\/\/([a-z]+)\/([^/]+)$/i.exec(uri) ?? [];
  const kind = resourceKinds.find((known) => known === found?.toLowerCase());
  if (kind === undefined || !isUuid(id)) return null;
  return { kind, id: id.toLowerCase(), uri };
}

/** MCP's error code for an unknown resource. MCP has no specific codes for the other refusals. */
const NOT_FOUND = -32002;

export function refusalError(refusal: Refusal, uri?: string): McpError {
  const body = refusalBody(refusal);
  const code = refusal.code === 'NOT_FOUND' ? NOT_FOUND : ErrorCode.InvalidRequest;
  return new McpError(code, `${body.code}: ${body.detail} Next: ${body.next}`, { ...body, ...(uri && { uri }) });
}

/** Throws if the resource does not exist or the caller may not read it. */
export async function readResource(perform: Perform, caller: Caller, uri: string): Promise<ReadResourceResult> {
  const named = parseResourceUri(uri);
  if (named === null) throw refusalError({ code: 'NOT_FOUND', detail: 'Resource not found.' }, uri);
  const read = await resources[named.kind].read(perform, caller, named.id);
  if (!read.ok) throw refusalError(read.refusal, uri);
  const text = JSON.stringify(sanitizeJson(read.value));
  return { contents: [{ uri, mimeType: 'application/json', text, _meta: { [UNTRUSTED_META_KEY]: true } }] };
}

/**
 * One page of the resources that the caller may read: homes, then devices, then plans. Throws if the cursor is not
 * valid.
 */
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
    // Skips an empty page: the page starts with the next kind.
    if (entries.length === 0 && next === null && following !== undefined) continue;
    return { resources: entries.map((entry) => toResource(kind, entry)), ...(nextCursor && { nextCursor }) };
  }
  return { resources: [] };
}

function parseCursor(cursor: string | undefined): { kind: ResourceKind | null; after: string | null } {
  if (cursor === undefined) return { kind: null, after: null };
  const [, found, after = ''] = /^([a-z]+)\.(.*)$/.exec(cursor) ?? [];
  const kind = resourceKinds.find((known) => known === found);
  if (kind === undefined) throw new McpError(ErrorCode.InvalidParams, 'cursor is not valid for this list.');
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
