import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ActiveContextSchema,
  ContextKind,
  ContextNodeSchema,
  ContextPhase,
  DeviceSchema,
  InterruptReason,
  MemorySchema,
  NodeState,
  type PerceptionUpdate,
  PerceptionUpdateSchema,
  type ActiveContext as WireContext,
  type Device as WireDevice,
  type Memory as WireMemory,
  type ContextNode as WireNode,
} from '#proto/cognition/v1/runtime_pb.js';
import type { Memory } from '../../domain/memory.ts';
import type { StepStatus } from '../../domain/plan.ts';
import type { Uuid } from '../../domain/values.ts';
import type { ActiveContext, ContextNode, World, WorldDevice } from '../../operations/cognition/contract.ts';
import { capabilitySet } from './tools.ts';
import { wireBytes } from './wire-bytes.ts';

// What is shown to a sidecar, in the contract's words and within its bounds.

export const nodeStates: Readonly<Record<StepStatus, NodeState>> = {
  pending: NodeState.PENDING,
  running: NodeState.RUNNING,
  awaiting_confirmation: NodeState.AWAITING_CONFIRMATION,
  succeeded: NodeState.SUCCEEDED,
  failed: NodeState.FAILED,
  skipped: NodeState.SKIPPED,
  compensating: NodeState.COMPENSATING,
  compensated: NodeState.COMPENSATED,
  compensation_failed: NodeState.COMPENSATION_FAILED,
};

/** What an observation led to does not run before somebody accepts it. */
export const stateOf = ({ status }: Pick<ContextNode, 'status'>, kind: ActiveContext['kind']): NodeState =>
  kind === 'observation' ? NodeState.PROPOSED : nodeStates[status];

export const interruptReasons = {
  CANCELLED: InterruptReason.CANCELLED,
  SUSPENDED: InterruptReason.SUSPENDED,
  PREEMPTED: InterruptReason.PREEMPTED,
} as const;

const kinds = {
  goal: ContextKind.GOAL,
  device: ContextKind.DEVICE,
  observation: ContextKind.OBSERVATION,
} as const;
const phases = { thinking: ContextPhase.THINKING, suspended: ContextPhase.SUSPENDED } as const;

/** Bytes of one event, by what takes them: together below the 4 MiB that gRPC libraries take. */
export interface Room {
  contexts: number;
  devices: number;
  memories: number;
}
export const ROOM: Room = { contexts: 1_250_000, devices: 1_500_000, memories: 500_000 };

/** What a message takes beside its texts and its JSON. */
const BARE = 400;
const textBytes = (...texts: readonly (string | null)[]): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);

export interface Shown {
  /** Of the world: told whether there is something to think about or not. */
  tenantId: Uuid;
  homeId: Uuid | null;
  deviceId: Uuid | null;
  world: World;
  /** Oldest first. */
  contexts: readonly ActiveContext[];
  /** Contexts that are not even looked at. */
  waiting: number;
  memories: readonly Memory[];
}

export function perception(shown: Shown, room: Room = ROOM): PerceptionUpdate {
  const { tenantId, homeId, deviceId, world } = shown;
  const part = { tenantId, homeId: homeId ?? '', deviceId: deviceId ?? '', worldStateHash: world.hash };
  if (shown.contexts.length === 0) return create(PerceptionUpdateSchema, part);
  const activeContexts = contextsWithin(shown.contexts, room.contexts);
  const devices = devicesWithin(world.devices, room.devices);
  return create(PerceptionUpdateSchema, {
    ...part,
    activeContexts,
    contextsLeftOut: shown.waiting + shown.contexts.length - activeContexts.length,
    devices,
    devicesLeftOut: world.devices.length - devices.length,
    memories: memoriesWithin(shown.memories, room.memories),
  });
}

function contextsWithin(contexts: readonly ActiveContext[], room: number): WireContext[] {
  const shown: WireContext[] = [];
  let left = room;
  for (const context of contexts) {
    const bytes = contextBytes(context);
    if (bytes > left && shown.length > 0) break;
    left -= bytes;
    const nodes = context.nodes.map((node) => {
      const more = wireBytes(node.params, left) + wireBytes(node.compensation?.params ?? {}, left);
      const fits = more <= left;
      if (fits) left -= more;
      return nodeOf(node, context.kind, fits);
    });
    shown.push(contextOf(context, nodes));
  }
  return shown;
}

const contextBytes = ({ text, note, data, action, nodes }: ActiveContext): number =>
  BARE +
  textBytes(text, note) +
  wireBytes(data) +
  wireBytes(action?.params) +
  nodes.reduce((sum, { dependsOn, error }) => sum + BARE + textBytes(...dependsOn, error?.detail ?? null) * 2, 0);

const contextOf = (context: ActiveContext, nodes: WireNode[]): WireContext =>
  create(ActiveContextSchema, {
    contextId: context.id,
    kind: kinds[context.kind],
    text: context.text ?? '',
    deviceId: context.deviceId ?? '',
    ...(context.action !== null && { action: context.action.action, params: context.action.params }),
    ...(context.data !== null && { data: context.data }),
    note: context.note ?? '',
    phase: phases[context.phase],
    createdAt: timestampFromMs(context.createdAt),
    nodes,
  });

function nodeOf(node: ContextNode, kind: ActiveContext['kind'], whole: boolean): WireNode {
  const { id, deviceId, action, params, dependsOn, compensation, timeoutS, commandId, error } = node;
  return create(ContextNodeSchema, {
    node: {
      ...{ nodeId: id, deviceId, action, dependsOn: [...dependsOn], timeoutS: timeoutS ?? 0 },
      ...(whole && { params }),
      ...(compensation && {
        compensation: { action: compensation.action, ...(whole && { params: compensation.params }) },
      }),
    },
    state: stateOf(node, kind),
    commandId: commandId ?? '',
    code: error?.code ?? '',
    detail: error?.detail ?? '',
    paramsLeftOut: !whole,
  });
}

function devicesWithin(devices: readonly WorldDevice[], room: number): WireDevice[] {
  const shown: WireDevice[] = [];
  let left = room;
  for (const device of devices) {
    const bare = BARE + textBytes(device.name, device.type, device.room?.name ?? null);
    if (bare > left) break;
    const bytes = wireBytes(device.state, left);
    const whole = bare + bytes <= left;
    left -= whole ? bare + bytes : bare;
    shown.push(deviceOf(device, whole));
  }
  return shown;
}

const deviceOf = (device: WorldDevice, whole: boolean): WireDevice =>
  create(DeviceSchema, {
    deviceId: device.id,
    homeId: device.homeId ?? '',
    roomId: device.room?.id ?? '',
    roomName: device.room?.name ?? '',
    name: device.name ?? '',
    deviceType: device.type,
    category: device.category ?? '',
    online: device.online,
    ...(whole && { state: device.state }),
    stateLeftOut: !whole,
    capabilitySetId: device.manifest === null ? '' : capabilitySet(device.manifest).capabilitySetId,
  });

function memoriesWithin(memories: readonly Memory[], room: number): WireMemory[] {
  let left = room;
  const fitting = memories.filter(({ content, subject, tags }) => {
    left -= BARE + textBytes(content, subject, ...tags);
    return left >= 0;
  });
  return fitting.map(({ id, kind, subject, content, tags, source, createdAt }) =>
    create(MemorySchema, {
      ...{ memoryId: id, kind, subject: subject ?? '', content, tags: [...tags], source },
      createdAt: timestampFromMs(createdAt),
    }),
  );
}
