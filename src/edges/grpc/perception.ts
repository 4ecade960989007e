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
import { capabilitySetOf } from './capability-sets.ts';
import { maxProtobufBytes } from './protobuf-size.ts';

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
export const nodeStateOf = ({ status }: Pick<ContextNode, 'status'>, kind: ActiveContext['kind']): NodeState =>
  kind === 'observation' ? NodeState.PROPOSED : nodeStates[status];

export const interruptReasons = {
  CANCELLED: InterruptReason.CANCELLED,
  SUSPENDED: InterruptReason.SUSPENDED,
  PREEMPTED: InterruptReason.PREEMPTED,
} as const;

const contextKinds = {
  goal: ContextKind.GOAL,
  device: ContextKind.DEVICE,
  observation: ContextKind.OBSERVATION,
} as const;
const contextPhases = { thinking: ContextPhase.THINKING, suspended: ContextPhase.SUSPENDED } as const;

/** Bytes of one event, by what takes them: together below the 4 MiB that gRPC libraries take. */
export interface ByteBudget {
  contexts: number;
  devices: number;
  memories: number;
}
export const DEFAULT_BUDGET: ByteBudget = { contexts: 1_250_000, devices: 1_500_000, memories: 500_000 };

/** What a message takes beside its texts and its JSON. */
const MESSAGE_OVERHEAD_BYTES = 400;
const textBytes = (...texts: readonly (string | null)[]): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);

export interface PerceptionInput {
  /** Of the world: told whether there is something to think about or not. */
  tenantId: Uuid;
  homeId: Uuid | null;
  deviceId: Uuid | null;
  world: World;
  /** Oldest first. */
  contexts: readonly ActiveContext[];
  /** Contexts that are not even looked at. */
  contextsNotRead: number;
  memories: readonly Memory[];
}

export function buildPerceptionUpdate(shown: PerceptionInput, room: ByteBudget = DEFAULT_BUDGET): PerceptionUpdate {
  const { tenantId, homeId, deviceId, world } = shown;
  const part = { tenantId, homeId: homeId ?? '', deviceId: deviceId ?? '', worldStateHash: world.hash };
  if (shown.contexts.length === 0) return create(PerceptionUpdateSchema, part);
  const activeContexts = fitContexts(shown.contexts, room.contexts);
  const devices = fitDevices(world.devices, room.devices);
  return create(PerceptionUpdateSchema, {
    ...part,
    activeContexts,
    contextsLeftOut: shown.contextsNotRead + shown.contexts.length - activeContexts.length,
    devices,
    devicesLeftOut: world.devices.length - devices.length,
    memories: fitMemories(shown.memories, room.memories),
  });
}

function fitContexts(contexts: readonly ActiveContext[], room: number): WireContext[] {
  const shown: WireContext[] = [];
  let left = room;
  for (const context of contexts) {
    const bytes = contextBytes(context);
    if (bytes > left && shown.length > 0) break;
    left -= bytes;
    const nodes = context.nodes.map((node) => {
      const more = maxProtobufBytes(node.params, left) + maxProtobufBytes(node.compensation?.params ?? {}, left);
      const fits = more <= left;
      if (fits) left -= more;
      return toWireNode(node, context.kind, fits);
    });
    shown.push(toWireContext(context, nodes));
  }
  return shown;
}

const contextBytes = ({ text, note, data, action, nodes }: ActiveContext): number =>
  MESSAGE_OVERHEAD_BYTES +
  textBytes(text, note) +
  maxProtobufBytes(data) +
  maxProtobufBytes(action?.params) +
  nodes.reduce(
    (sum, { dependsOn, error }) => sum + MESSAGE_OVERHEAD_BYTES + textBytes(...dependsOn, error?.detail ?? null) * 2,
    0,
  );

const toWireContext = (context: ActiveContext, nodes: WireNode[]): WireContext =>
  create(ActiveContextSchema, {
    contextId: context.id,
    kind: contextKinds[context.kind],
    text: context.text ?? '',
    deviceId: context.deviceId ?? '',
    ...(context.action !== null && { action: context.action.action, params: context.action.params }),
    ...(context.data !== null && { data: context.data }),
    note: context.note ?? '',
    phase: contextPhases[context.phase],
    createdAt: timestampFromMs(context.createdAt),
    nodes,
  });

function toWireNode(node: ContextNode, kind: ActiveContext['kind'], whole: boolean): WireNode {
  const { id, deviceId, action, params, dependsOn, compensation, timeoutS, commandId, error } = node;
  return create(ContextNodeSchema, {
    node: {
      ...{ nodeId: id, deviceId, action, dependsOn: [...dependsOn], timeoutS: timeoutS ?? 0 },
      ...(whole && { params }),
      ...(compensation && {
        compensation: { action: compensation.action, ...(whole && { params: compensation.params }) },
      }),
    },
    state: nodeStateOf(node, kind),
    commandId: commandId ?? '',
    code: error?.code ?? '',
    detail: error?.detail ?? '',
    paramsLeftOut: !whole,
  });
}

function fitDevices(devices: readonly WorldDevice[], room: number): WireDevice[] {
  const shown: WireDevice[] = [];
  let left = room;
  for (const device of devices) {
    const bare = MESSAGE_OVERHEAD_BYTES + textBytes(device.name, device.type, device.room?.name ?? null);
    if (bare > left) break;
    const bytes = maxProtobufBytes(device.state, left);
    const whole = bare + bytes <= left;
    left -= whole ? bare + bytes : bare;
    shown.push(toWireDevice(device, whole));
  }
  return shown;
}

const toWireDevice = (device: WorldDevice, whole: boolean): WireDevice =>
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
    capabilitySetId: device.manifest === null ? '' : capabilitySetOf(device.manifest).capabilitySetId,
  });

function fitMemories(memories: readonly Memory[], room: number): WireMemory[] {
  let left = room;
  const fitting = memories.filter(({ content, subject, tags }) => {
    left -= MESSAGE_OVERHEAD_BYTES + textBytes(content, subject, ...tags);
    return left >= 0;
  });
  return fitting.map(({ id, kind, subject, content, tags, source, createdAt }) =>
    create(MemorySchema, {
      ...{ memoryId: id, kind, subject: subject ?? '', content, tags: [...tags], source },
      createdAt: timestampFromMs(createdAt),
    }),
  );
}
