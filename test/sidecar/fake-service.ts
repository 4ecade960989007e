import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { inject } from 'vitest';
import {
  type CognitionProposal,
  CognitionProposalSchema,
  CognitionRuntime,
  ContextKind,
  ContextPhase,
  NodeState,
  type RuntimeEvent,
  RuntimeEventSchema,
  SafetyClass,
} from '#proto/cognition/v1/runtime_pb.js';
import type { PlannerDevice } from '../../sidecar/planner-types.ts';
import { flat } from './world-fixtures.ts';

type EventInit = NonNullable<MessageInitShape<typeof RuntimeEventSchema>['event']>;
type PerceptionInit = Extract<EventInit, { case: 'perceptionUpdate' }>['value'];
type ContextInit = NonNullable<PerceptionInit['activeContexts']>[number];

/** The service's end of a stream, as far as tests need it. */
export interface FakeService {
  received: CognitionProposal[];
  send(event: EventInit): void;
  /** Sends the capabilities of devices, and a home with these contexts. */
  sendPerception(contexts: ContextInit[], more?: PerceptionInit): void;
  move(contextId: string, nodeId: string, to: NodeState, more?: { code?: string; detail?: string }): void;
  /** The proposals for a context, in short form. */
  words(contextId: string): string[];
  until<T>(look: () => T | undefined | false): Promise<T>;
  over: Promise<string>;
  hangUp(): void;
}

const { orchestrate } = CognitionRuntime.method;

export function dial(address: string, token: string | null = null): FakeService {
  const metadata = new Metadata();
  if (token !== null) metadata.set('authorization', `Bearer ${token}`);
  const client = new Client(address, credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  const stream = client.makeBidiStreamRequest<RuntimeEvent, CognitionProposal>(
    `/${CognitionRuntime.typeName}/${orchestrate.name}`,
    (event) => Buffer.from(toBinary(RuntimeEventSchema, event)),
    (bytes) => fromBinary(CognitionProposalSchema, bytes),
    metadata,
  );
  const received: CognitionProposal[] = [];
  const looks = new Set<() => void>();
  stream.on('data', (proposal: CognitionProposal) => {
    received.push(proposal);
    for (const look of looks) look();
  });
  const over = new Promise<string>((resolve) => {
    stream.on('error', ({ details }: { details?: string }) => resolve(details ?? 'broken'));
    stream.on('end', () => resolve('end'));
  });
  let count = 0n;
  const send = (event: EventInit) => void stream.write(create(RuntimeEventSchema, { eventId: ++count, event }));
  return {
    received,
    send,
    sendPerception: (activeContexts, more = {}) =>
      send({
        case: 'perceptionUpdate',
        value: { tenantId: 't', homeId: 'h', ...worldOf(flat()), activeContexts, ...more },
      }),
    move: (contextId, nodeId, to, { code = '', detail = '' } = {}) =>
      send({ case: 'graphStateUpdate', value: { contextId, nodeId, to, code, detail } }),
    words: (contextId) => received.filter((one) => one.contextId === contextId).map(inShort),
    until: (look) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          looks.delete(again);
          reject(new Error(`not heard: ${JSON.stringify(received.map(inShort))}`));
        }, inject('pollMs'));
        const again = () => {
          const found = look();
          if (!found) return;
          clearTimeout(timer);
          looks.delete(again);
          resolve(found);
        };
        looks.add(again);
        again();
      }),
    over,
    hangUp: () => {
      stream.cancel();
      client.close();
    },
  };
}

export const inShort = ({ proposal }: CognitionProposal): string => {
  switch (proposal.case) {
    case 'graphNode':
      return `node ${proposal.value.node?.nodeId}`;
    case 'suspend':
      return `suspend ${proposal.value.forS}: ${proposal.value.reason}`;
    case 'complete':
      return `complete: ${proposal.value.summary}`;
    case 'error':
      return `error ${proposal.value.code}: ${proposal.value.detail}`;
    default:
      return 'nothing';
  }
};

/** One set for each category, as in the first event of a stream. */
export const capabilities = (devices: readonly PlannerDevice[] = flat()): EventInit => ({
  case: 'capabilitySync',
  value: {
    sets: [...new Map(devices.map((device) => [device.category ?? device.id, device])).entries()].map(
      ([id, device]) => ({
        capabilitySetId: `set-of-${id}`,
        category: device.category ?? '',
        tools: [...device.tools.values()].map(
          ({ action, critical, functionName, description, params, expectedState }) => ({
            action,
            safetyClass: critical ? SafetyClass.CRITICAL : SafetyClass.NORMAL,
            definition: {
              type: 'function',
              function: {
                name: functionName,
                description,
                parameters: { type: 'object', properties: { device_id: { type: 'string' }, params } },
              },
            },
            ...(expectedState && { expectedState }),
          }),
        ),
      }),
    ),
  },
});

export const worldOf = (devices: readonly PlannerDevice[]): Pick<PerceptionInit, 'devices'> => ({
  devices: devices.map(({ id, name, room, type, category, online, state }) => ({
    ...{ deviceId: id, name: name ?? '', roomName: room ?? '', deviceType: type, category: category ?? '', online },
    ...(state && { state }),
    capabilitySetId: `set-of-${category ?? id}`,
  })),
});

export const goal = (
  contextId: string,
  text: string,
  more: Partial<Exclude<ContextInit, { $typeName: string }>> = {},
): ContextInit => ({
  ...{ contextId, text, kind: ContextKind.GOAL, phase: ContextPhase.THINKING },
  ...more,
});

export { ContextKind, ContextPhase, NodeState };
