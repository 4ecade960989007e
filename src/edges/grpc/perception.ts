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

// Perception updates: maps contexts, devices and memories to protobuf messages, within a byte budget.

export const nodeStateByStatus: Readonly<Record<StepStatus, NodeState>> = {
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

/** Nodes of an observation are proposals: they run only after a user accepts them. */
export const nodeStateOfStep = ({ status }: Pick<ContextNode, 'status'>, kind: ActiveContext['kind']): NodeState =>
  kind === 'observation' ? NodeState.PROPOSED : nodeStateByStatus[status];

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

/** Byte budget of one event by content. The sum stays below 4 MiB, the default message limit of gRPC libraries. */
export interface ByteBudget {
  contexts: number;
  devices: number;
  memories: number;
}
export const DEFAULT_BUDGET: ByteBudget = { contexts: 1_250_000, devices: 1_500_000, memories: 500_000 };

/** Upper bound for the fields of a message other than its texts and its JSON. */
const MESSAGE_OVERHEAD_BYTES = 400;
const textBytes = (...texts: readonly (string | null)[]): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);

export interface PerceptionInput {
  /** The scope of the update, sent with and without active contexts. */
  tenantId: Uuid;
  homeId: Uuid | null;
  deviceId: Uuid | null;
  world: World;
  /** Oldest first. */
  contexts: readonly ActiveContext[];
  /** Number of contexts that were not loaded. */
  contextsNotRead: number;
  memories: readonly Memory[];
}

export function buildPerceptionUpdate(input: PerceptionInput, budget: ByteBudget = DEFAULT_BUDGET): PerceptionUpdate {
  const { tenantId, homeId, deviceId, world } = input;
  const scope = { tenantId, homeId: homeId ?? '', deviceId: deviceId ?? '', worldStateHash: world.hash };
  if (input.contexts.length === 0) return create(PerceptionUpdateSchema, scope);
  const activeContexts = fitContexts(input.contexts, budget.contexts);
  const devices = fitDevices(world.devices, budget.devices);
  return create(PerceptionUpdateSchema, {
    ...scope,
    activeContexts,
    contextsLeftOut: input.contextsNotRead + input.contexts.length - activeContexts.length,
    devices,
    devicesLeftOut: world.devices.length - devices.length,
    memories: fitMemories(input.memories, budget.memories),
  });
}

function fitContexts(contexts: readonly ActiveContext[], budget: number): WireContext[] {
  const fitting: WireContext[] = [];
  let left = budget;
  for (const context of contexts) {
    const bytes = contextBytes(context);
    if (bytes > left && fitting.length > 0) break;
    left -= bytes;
    const nodes = context.nodes.map((node) => {
      const more = maxProtobufBytes(node.params, left) + maxProtobufBytes(node.compensation?.params ?? {}, left);
      const fits = more <= left;
      if (fits) left -= more;
      return toWireNode(node, context.kind, fits);
    });
    fitting.push(toWireContext(context, nodes));
  }
  return fitting;
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

function toWireNode(node: ContextNode, kind: ActiveContext['kind'], withParams: boolean): WireNode {
  const { id, deviceId, action, params, dependsOn, compensation, timeoutS, commandId, error } = node;
  return create(ContextNodeSchema, {
    node: {
      ...{ nodeId: id, deviceId, action, dependsOn: [...dependsOn], timeoutS: timeoutS ?? 0 },
      ...(withParams && { params }),
      ...(compensation && {
        compensation: { action: compensation.action, ...(withParams && { params: compensation.params }) },
      }),
    },
    state: nodeStateOfStep(node, kind),
    commandId: commandId ?? '',
    code: error?.code ?? '',
    detail: error?.detail ?? '',
    paramsLeftOut: !withParams,
  });
}

function fitDevices(devices: readonly WorldDevice[], budget: number): WireDevice[] {
  const fitting: WireDevice[] = [];
  let left = budget;
  for (const device of devices) {
    const baseBytes = MESSAGE_OVERHEAD_BYTES + textBytes(device.name, device.type, device.room?.name ?? null);
    if (baseBytes > left) break;
    const stateBytes = maxProtobufBytes(device.state, left);
    const stateFits = baseBytes + stateBytes <= left;
    left -= stateFits ? baseBytes + stateBytes : baseBytes;
    fitting.push(toWireDevice(device, stateFits));
  }
  return fitting;
}

const toWireDevice = (device: WorldDevice, withState: boolean): WireDevice =>
  create(DeviceSchema, {
    deviceId: device.id,
    homeId: device.homeId ?? '',
    roomId: device.room?.id ?? '',
    roomName: device.room?.name ?? '',
    name: device.name ?? '',
    deviceType: device.type,
    category: device.category ?? '',
    online: device.online,
    ...(withState && { state: device.state }),
    stateLeftOut: !withState,
    stateOutdated: device.stateOutdated,
    capabilitySetId: device.manifest === null ? '' : capabilitySetOf(device.manifest).capabilitySetId,
  });

function fitMemories(memories: readonly Memory[], budget: number): WireMemory[] {
  let left = budget;
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
