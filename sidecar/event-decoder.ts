import type {
  CapabilitySet,
  ActiveContext as WireContext,
  Device as WireDevice,
  Memory as WireMemory,
  ContextNode as WireNode,
  ObservationOutcome as WireOutcome,
} from '#proto/cognition/v1/runtime_pb.js';
import { isObject } from './json-schema.ts';
import {
  type CommandOutcome,
  type Context,
  type JsonObject,
  type Memory,
  type Node,
  type NodeState,
  nodeStates,
  type PlannerDevice,
  type Tool,
  type Tools,
} from './planner-types.ts';

// Decodes the messages of the stream into the planner's types.

/** Longer memories are cut. */
const MEMORY_CHARACTERS = 2_000;

// `SafetyClass` of the protocol.
const CRITICAL = 2;

export const toolsOf = ({ tools }: CapabilitySet): Tools =>
  new Map(
    tools.map(({ action, safetyClass, definition, expectedState }): [string, Tool] => {
      const declaration = isObject(definition?.function) ? definition.function : {};
      const parameters = isObject(declaration.parameters) ? declaration.parameters : {};
      const properties = isObject(parameters.properties) ? parameters.properties : {};
      const tool = {
        action,
        critical: (safetyClass as number) === CRITICAL,
        functionName: text(declaration.name) || action,
        description: text(declaration.description),
        params: isObject(properties.params) ? properties.params : {},
        expectedState: expectedState ?? null,
      };
      return [action, tool];
    }),
  );

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

const NO_TOOLS: Tools = new Map();

export const deviceOf = (device: WireDevice, sets: ReadonlyMap<string, Tools>): PlannerDevice => ({
  id: device.deviceId,
  name: device.name || null,
  room: device.roomName || null,
  type: device.deviceType,
  category: device.category || null,
  online: device.online,
  state: device.state ?? null,
  stateOutdated: device.stateOutdated,
  tools: sets.get(device.capabilitySetId) ?? NO_TOOLS,
});

export const memoryOf = ({ memoryId: id, kind, subject, content, tags }: WireMemory): Memory => ({
  ...{ id, kind, subject, tags },
  content: content.slice(0, MEMORY_CHARACTERS),
});

/**
 * `ContextKind` of the protocol. Contexts with other values are ignored: 0 is never sent, others belong to later
 * versions.
 */
const contextKinds: Readonly<Record<number, Context['kind']>> = { 1: 'goal', 2: 'device', 3: 'observation' };

export function contextOf(context: WireContext): Context | null {
  const kind = contextKinds[context.kind];
  if (kind === undefined) return null;
  return {
    id: context.contextId,
    kind,
    text: context.text,
    deviceId: context.deviceId || null,
    requestedAction: context.action === '' ? null : { action: context.action, params: context.params ?? {} },
    data: context.data ?? {},
    note: context.note,
    nodes: context.nodes.flatMap((node) => nodeOf(node) ?? []),
  };
}

function nodeOf({ node, state: value, code, detail }: WireNode): Node | null {
  const state = nodeStateOf(value);
  if (node === undefined || state === null) return null;
  const { nodeId, deviceId, action, params, dependsOn, compensation } = node;
  return {
    ...{ id: nodeId, deviceId, action, params: params ?? {}, dependsOn },
    compensation:
      compensation === undefined ? null : { action: compensation.action, params: compensation.params ?? {} },
    ...{ state, code, detail, outcome: null },
  };
}

/** `NodeState` of the protocol counts from 1 in the order of `nodeStates`. */
export const nodeStateOf = (value: number): NodeState | null => nodeStates[value - 1] ?? null;

export const commandOutcomeOf = ({
  success,
  status,
  verification,
  code,
  deviceState,
}: WireOutcome): CommandOutcome => ({
  ...{ success, status, verification, code },
  deviceState: (deviceState as JsonObject | undefined) ?? null,
});
