import type {
  CapabilitySet,
  ActiveContext as ToldContext,
  Device as ToldDevice,
  Memory as ToldMemory,
  ContextNode as ToldNode,
  ObservationOutcome as ToldOutcome,
} from '#proto/cognition/v1/runtime_pb.js';
import { isObject } from './json-schema.ts';
import {
  type Context,
  type Device,
  type JsonObject,
  type Memory,
  type Node,
  type NodeState,
  nodeStates,
  type Outcome,
  type Tool,
  type Tools,
} from './planner-types.ts';

// The messages of the stream as planners see them.

/** Longer memories are read up to here. */
const MEMORY_CHARACTERS = 2_000;

// `SafetyClass` of the protocol.
const CRITICAL = 2;

export const toolsOf = ({ tools }: CapabilitySet): Tools =>
  new Map(
    tools.map(({ action, safetyClass, definition, expectedState }): [string, Tool] => {
      const called = isObject(definition?.function) ? definition.function : {};
      const parameters = isObject(called.parameters) ? called.parameters : {};
      const properties = isObject(parameters.properties) ? parameters.properties : {};
      const tool = {
        action,
        critical: (safetyClass as number) === CRITICAL,
        functionName: text(called.name) || action,
        description: text(called.description),
        params: isObject(properties.params) ? properties.params : {},
        expected: expectedState ?? null,
      };
      return [action, tool];
    }),
  );

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

const NO_TOOLS: Tools = new Map();

export const deviceOf = (told: ToldDevice, sets: ReadonlyMap<string, Tools>): Device => ({
  id: told.deviceId,
  name: told.name || null,
  room: told.roomName || null,
  type: told.deviceType,
  category: told.category || null,
  online: told.online,
  state: told.state ?? null,
  tools: sets.get(told.capabilitySetId) ?? NO_TOOLS,
});

export const memoryOf = ({ kind, subject, content, tags }: ToldMemory): Memory => ({
  ...{ kind, subject, tags },
  content: content.slice(0, MEMORY_CHARACTERS),
});

/** `ContextKind` of the protocol; 0 and what comes later are told by nobody who means this version. */
const contextKinds: Readonly<Record<number, Context['kind']>> = { 1: 'goal', 2: 'device', 3: 'observation' };

export function contextOf(told: ToldContext): Context | null {
  const kind = contextKinds[told.kind];
  if (kind === undefined) return null;
  return {
    id: told.contextId,
    kind,
    text: told.text,
    deviceId: told.deviceId || null,
    requestedAction: told.action === '' ? null : { action: told.action, params: told.params ?? {} },
    data: told.data ?? {},
    note: told.note,
    nodes: told.nodes.flatMap((node) => nodeOf(node) ?? []),
  };
}

function nodeOf({ node, state, code, detail }: ToldNode): Node | null {
  const standing = nodeStateOf(state);
  if (node === undefined || standing === null) return null;
  const { nodeId, deviceId, action, params, dependsOn, compensation } = node;
  return {
    ...{ id: nodeId, deviceId, action, params: params ?? {}, dependsOn },
    compensation:
      compensation === undefined ? null : { action: compensation.action, params: compensation.params ?? {} },
    ...{ state: standing, code, detail, outcome: null },
  };
}

/** `NodeState` of the protocol counts from 1 in the order of `nodeStates`. */
export const nodeStateOf = (told: number): NodeState | null => nodeStates[told - 1] ?? null;

export const outcomeOf = ({ success, status, verification, code, deviceState }: ToldOutcome): Outcome => ({
  ...{ success, status, verification, code },
  deviceState: (deviceState as JsonObject | undefined) ?? null,
});
