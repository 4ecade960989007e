import type { Actors } from '../../../actors/contract.ts';
import { commandStatuses, verificationStatuses } from '../../../domain/command.ts';
import type { JsonSpan } from '../../../domain/json/span.ts';
import { countSchema, type FieldSchemas } from '../../../domain/message-schema.ts';
import { planStatuses, stepStatuses } from '../../../domain/plan.ts';
import { telemetryFields } from '../../../domain/telemetry.ts';
import type { EpochMs, JsonObject, Uuid } from '../../../domain/values.ts';
import type { VolatileOutput } from '../../../machines/outputs.ts';
import { type LiveSubject, streamAccess } from './read-access.ts';
import type { AccessRequirement } from './subscription.ts';
import type { JsonFragments, Update } from './update.ts';

/** A kind of update that clients can subscribe to with `events` (contract §6). */
interface UpdateKind extends AccessRequirement {
  /** Required members of the message; `type` is the first. */
  fields: FieldSchemas;
  optional: FieldSchemas;
  description: string;
  subscribe(actors: Pick<Actors, 'subscribe'>, publish: (update: Update) => void): () => void;
}

type TenantOutput = Extract<VolatileOutput, { tenantId: Uuid }>;
type OutputOf<T extends TenantOutput['type']> = Extract<TenantOutput, { type: T }>;

/** How outputs of one kind are turned into messages. */
interface UpdateFormat<Output> {
  deviceOf(output: Output): Uuid | null;
  subjectOf(output: Output): string;
  versionOf?(output: Output): number;
  message(output: Output): JsonObject;
  /** Optional: assembles the JSON text faster than by stringifying `message`. */
  fragments?(output: Output): JsonFragments;
}

interface KindDefinition<T extends TenantOutput['type']> extends UpdateFormat<OutputOf<T>> {
  output: T;
  /** Determines the required role and scope. */
  about: LiveSubject;
  type: `${string}_update`;
  fields: FieldSchemas;
  optional?: FieldSchemas;
  description: string;
}

/** An actor output as an update; its members are computed on demand. */
class OutputUpdate<Output extends TenantOutput> implements Update {
  readonly kind: UpdateKindName;
  readonly #format: UpdateFormat<Output>;
  readonly #output: Output;

  constructor(kind: UpdateKindName, format: UpdateFormat<Output>, output: Output) {
    this.kind = kind;
    this.#format = format;
    this.#output = output;
  }

  get tenantId(): Uuid {
    return this.#output.tenantId;
  }

  get deviceId(): Uuid | null {
    return this.#format.deviceOf(this.#output);
  }

  get subject(): string {
    return `${this.kind} ${this.#format.subjectOf(this.#output)}`;
  }

  get version(): number | null {
    return this.#format.versionOf?.(this.#output) ?? null;
  }

  message(): JsonObject {
    return this.#format.message(this.#output);
  }

  fragments(): JsonFragments {
    return this.#format.fragments?.(this.#output) ?? [JSON.stringify(this.message())];
  }
}

const id = { type: 'string', format: 'uuid' } as const;
const time = { ...countSchema, description: 'Epoch milliseconds' };
const deviceTime = {
  ...countSchema,
  description: 'The time that the device signed, or of the receipt of an unsigned message; epoch milliseconds',
};

const defineKind = <T extends TenantOutput['type']>(
  kind: UpdateKindName,
  definition: KindDefinition<T>,
): UpdateKind => ({
  ...streamAccess(definition.about),
  description: definition.description,
  fields: { type: { type: 'string', enum: [definition.type] }, ...definition.fields },
  optional: definition.optional ?? {},
  subscribe: (actors, publish) =>
    actors.subscribe(definition.output, (output) => publish(new OutputUpdate(kind, definition, output as OutputOf<T>))),
});

export const updateKindNames = ['state', 'report', 'presence', 'telemetry', 'command', 'confirmation', 'plan'] as const;
export type UpdateKindName = (typeof updateKindNames)[number];

export const updateKinds: Readonly<Record<UpdateKindName, UpdateKind>> = {
  state: defineKind('state', {
    output: 'device.state',
    about: 'device',
    type: 'state_update',
    description: 'A device reported its state and the twin was updated.',
    fields: {
      device_id: id,
      state: { type: 'object', description: 'The complete reported state' },
      timestamp: time,
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ deviceId }) => deviceId,
    versionOf: ({ stateVersion }) => stateVersion,
    message: ({ deviceId, state, at }) => stateMessage(deviceId, state, at),
    fragments: ({ deviceId, state, written, at }) => stateFragments(deviceId, written ?? JSON.stringify(state), at),
  }),
  report: defineKind('report', {
    output: 'device.state',
    about: 'device',
    type: 'report_update',
    description: 'A device reported its state, completely or in part: what leaves samples in its history.',
    fields: {
      device_id: id,
      report: { type: 'object', description: 'The report of the message, which may be a part of the state' },
      device_timestamp: deviceTime,
      sequence_number: countSchema,
      timestamp: time,
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ deviceId }) => deviceId,
    message: ({ deviceId, report, deviceAt, sequence, at }) => ({
      type: 'report_update',
      device_id: deviceId,
      report,
      device_timestamp: deviceAt,
      sequence_number: sequence,
      timestamp: at,
    }),
  }),
  presence: defineKind('presence', {
    output: 'device.presence',
    about: 'device',
    type: 'presence_update',
    description: 'A device went online or offline.',
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
  telemetry: defineKind('telemetry', {
    output: 'device.telemetry',
    about: 'device',
    type: 'telemetry_update',
    description: 'A device reported how it is, in a hello or heartbeat; only what that message contained.',
    fields: { device_id: id, device_timestamp: deviceTime, timestamp: time },
    optional: {
      battery: { type: 'number', description: 'Percent' },
      rssi: { type: 'number', description: 'dBm' },
      uptime_s: { type: 'number', description: 'Seconds since it started' },
      free_heap: { type: 'number', description: 'Bytes' },
      device_type: { type: 'string', description: 'The type that the device was built as' },
      manifest_version: { ...countSchema, description: 'The version of the manifest that it was built for' },
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ deviceId }) => deviceId,
    message: ({ deviceId, telemetry, battery, deviceAt, at }) => ({
      type: 'telemetry_update',
      device_id: deviceId,
      ...(battery !== undefined && { battery }),
      ...telemetryFields(telemetry),
      device_timestamp: deviceAt,
      timestamp: at,
    }),
  }),
  command: defineKind('command', {
    output: 'command.changed',
    about: 'command',
    type: 'command_update',
    description: 'The status or the verification result of a command changed, or its device reported progress.',
    fields: {
      command_id: id,
      device_id: id,
      status: { type: 'string', enum: commandStatuses },
      verification: { type: 'string', enum: verificationStatuses },
      timestamp: time,
    },
    optional: {
      progress: { description: 'The last progress that the device reported, in a unit that the device chooses' },
      code: { type: 'string', description: 'The code of the refusal of a rejected command' },
      reason: { type: 'string', description: 'The refusal of a rejected command, in one sentence' },
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ commandId }) => commandId,
    message: ({ commandId, deviceId, status, verification, progress, refusal, at }) => ({
      type: 'command_update',
      command_id: commandId,
      device_id: deviceId,
      status,
      verification,
      ...(progress !== undefined && { progress }),
      ...(refusal !== undefined && { code: refusal.code, reason: refusal.detail }),
      timestamp: at,
    }),
  }),
  confirmation: defineKind('confirmation', {
    output: 'confirmation.changed',
    about: 'confirmation',
    type: 'confirmation_update',
    description: 'A command started or stopped waiting for confirmation.',
    fields: {
      command_id: id,
      device_id: id,
      status: { type: 'string', enum: commandStatuses },
      expires_at: { ...countSchema, description: 'When the confirmation expires; epoch milliseconds' },
      timestamp: time,
    },
    optional: {
      dry_run: { type: 'boolean', description: 'True for a requested dry run, which is not in the inbox by default' },
    },
    deviceOf: ({ deviceId }) => deviceId,
    subjectOf: ({ commandId }) => commandId,
    message: ({ commandId, deviceId, status, expiresAt, dryRun, at }) => ({
      type: 'confirmation_update',
      command_id: commandId,
      device_id: deviceId,
      status,
      expires_at: expiresAt,
      ...(dryRun && { dry_run: true }),
      timestamp: at,
    }),
  }),
  plan: defineKind('plan', {
    output: 'plan.changed',
    about: 'plan',
    type: 'plan_update',
    description: 'The status of a plan changed, or that of one of its steps if step_id is set.',
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

export const stateMessage = (deviceId: Uuid, state: JsonObject, at: EpochMs): JsonObject => ({
  type: 'state_update',
  device_id: deviceId,
  state,
  timestamp: at,
});

/** The JSON text of `stateMessage`, assembled from the state's text. UUIDs need no escaping. */
export const stateFragments = (deviceId: Uuid, state: string | JsonSpan, at: EpochMs): JsonFragments => [
  '{"type":"state_update","device_id":"',
  deviceId,
  '","state":',
  state,
  ',"timestamp":',
  `${at}}`,
];

export const stateSubject = (deviceId: Uuid): string => `state ${deviceId}`;
