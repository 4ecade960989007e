import type { Actors } from '../../../actors/contract.ts';
import { commandStatuses, verificationStatuses } from '../../../domain/command.ts';
import type { JsonSpan } from '../../../domain/json/span.ts';
import { count, type FieldSchemas } from '../../../domain/message-schema.ts';
import { planStatuses, stepStatuses } from '../../../domain/plan.ts';
import type { NeededScope } from '../../../domain/scopes.ts';
import type { EpochMs, JsonObject, Uuid } from '../../../domain/values.ts';
import type { VolatileOutput } from '../../../machines/outputs.ts';
import type { AccessRequirement } from './subscription.ts';
import type { JsonFragments, Update } from './update.ts';

/** An output that clients may ask for with `events` (contract §6). */
interface UpdateKind extends AccessRequirement {
  /** The message's members that are always there; `type` is its first. */
  fields: FieldSchemas;
  optional: FieldSchemas;
  description: string;
  subscribe(actors: Pick<Actors, 'subscribe'>, tell: (update: Update) => void): () => void;
}

type TenantOutput = Extract<VolatileOutput, { tenantId: Uuid }>;
type OutputOf<T extends TenantOutput['type']> = Extract<TenantOutput, { type: T }>;

/** How an output of one kind is told. */
interface UpdateFormat<Said> {
  deviceOf(output: Said): Uuid | null;
  subjectOf(output: Said): string;
  versionOf?(output: Said): number;
  message(output: Said): JsonObject;
  /** Where a text is put together faster than of `message`. */
  fragments?(output: Said): JsonFragments;
}

interface KindDefinition<T extends TenantOutput['type']> extends UpdateFormat<OutputOf<T>> {
  output: T;
  scope: NeededScope;
  type: `${string}_update`;
  fields: FieldSchemas;
  optional?: FieldSchemas;
  description: string;
}

/** An output as an update: what of it nobody asks for is not made. */
class OutputUpdate<Said extends TenantOutput> implements Update {
  readonly kind: UpdateKindName;
  readonly #telling: UpdateFormat<Said>;
  readonly #output: Said;

  constructor(kind: UpdateKindName, telling: UpdateFormat<Said>, output: Said) {
    this.kind = kind;
    this.#telling = telling;
    this.#output = output;
  }

  get tenantId(): Uuid {
    return this.#output.tenantId;
  }

  get deviceId(): Uuid | null {
    return this.#telling.deviceOf(this.#output);
  }

  get subject(): string {
    return `${this.kind} ${this.#telling.subjectOf(this.#output)}`;
  }

  get version(): number | null {
    return this.#telling.versionOf?.(this.#output) ?? null;
  }

  message(): JsonObject {
    return this.#telling.message(this.#output);
  }

  fragments(): JsonFragments {
    return this.#telling.fragments?.(this.#output) ?? [JSON.stringify(this.message())];
  }
}

const id = { type: 'string', format: 'uuid' } as const;
const time = { ...count, description: 'Epoch milliseconds' };

const defineKind = <T extends TenantOutput['type']>(kind: UpdateKindName, row: KindDefinition<T>): UpdateKind => ({
  role: 'user',
  scope: row.scope,
  description: row.description,
  fields: { type: { type: 'string', enum: [row.type] }, ...row.fields },
  optional: row.optional ?? {},
  subscribe: (actors, tell) =>
    actors.subscribe(row.output, (output) => tell(new OutputUpdate(kind, row, output as OutputOf<T>))),
});

export const updateKindNames = ['state', 'presence', 'command', 'confirmation', 'plan'] as const;
export type UpdateKindName = (typeof updateKindNames)[number];

export const updateKinds: Readonly<Record<UpdateKindName, UpdateKind>> = {
  state: defineKind('state', {
    output: 'device.state',
    scope: 'read:devices',
    type: 'state_update',
    description: 'A device reported its state, and the twin has it.',
    fields: {
      device_id: id,
      state: { type: 'object', description: 'The whole reported state' },
      timestamp: time,
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ deviceId }) => deviceId,
    versionOf: ({ stateVersion }) => stateVersion,
    message: ({ deviceId, state, at }) => stateMessage(deviceId, state, at),
    fragments: ({ deviceId, state, written, at }) => stateFragments(deviceId, written ?? JSON.stringify(state), at),
  }),
  presence: defineKind('presence', {
    output: 'device.presence',
    scope: 'read:devices',
    type: 'presence_update',
    description: 'A device came or went.',
    fields: { device_id: id, online: { type: 'boolean' }, timestamp: time },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ deviceId }) => deviceId,
    message: ({ deviceId, online, at }) => ({
      type: 'presence_update',
      device_id: deviceId,
      online,
      timestamp: at,
    }),
  }),
  command: defineKind('command', {
    output: 'command.changed',
    scope: 'read:commands',
    type: 'command_update',
    description: 'A command went on: its status, or what its verification found.',
    fields: {
      command_id: id,
      device_id: id,
      status: { type: 'string', enum: commandStatuses },
      verification: { type: 'string', enum: verificationStatuses },
      timestamp: time,
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ commandId }) => commandId,
    message: ({ commandId, deviceId, status, verification, at }) => ({
      type: 'command_update',
      command_id: commandId,
      device_id: deviceId,
      status,
      verification,
      timestamp: at,
    }),
  }),
  confirmation: defineKind('confirmation', {
    output: 'confirmation.changed',
    scope: 'read:commands',
    type: 'confirmation_update',
    description: 'A command waits for a confirmation, or waits no more.',
    fields: {
      command_id: id,
      device_id: id,
      status: { type: 'string', enum: commandStatuses },
      expires_at: { ...count, description: 'When waiting ends; epoch milliseconds' },
      timestamp: time,
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ commandId }) => commandId,
    message: ({ commandId, deviceId, status, expiresAt, at }) => ({
      type: 'confirmation_update',
      command_id: commandId,
      device_id: deviceId,
      status,
      expires_at: expiresAt,
      timestamp: at,
    }),
  }),
  plan: defineKind('plan', {
    output: 'plan.changed',
    scope: 'read:plans',
    type: 'plan_update',
    description: 'A plan went on, or, with `step_id`, one of its steps.',
    fields: { plan_id: id, status: { type: 'string', enum: planStatuses }, timestamp: time },
    optional: { step_id: { type: 'string' }, step_status: { type: 'string', enum: stepStatuses } },
    deviceOf: () => null,
    subjectOf: ({ planId, stepId }) => `${planId} ${stepId ?? ''}`,
    message: ({ planId, status, stepId, stepStatus, at }) => ({
      type: 'plan_update',
      plan_id: planId,
      status,
      ...(stepId !== null && { step_id: stepId, step_status: stepStatus }),
      timestamp: at,
    }),
  }),
};

/** The whole reported state of a device. */
export const stateMessage = (deviceId: Uuid, state: JsonObject, at: EpochMs): JsonObject => ({
  type: 'state_update',
  device_id: deviceId,
  state,
  timestamp: at,
});

/** Its JSON text, made of the state's: an id of ours needs no escape. */
export const stateFragments = (deviceId: Uuid, state: string | JsonSpan, at: EpochMs): JsonFragments => [
  '{"type":"state_update","device_id":"',
  deviceId,
  '","state":',
  state,
  ',"timestamp":',
  `${at}}`,
];

export const stateSubject = (deviceId: Uuid): string => `state ${deviceId}`;
