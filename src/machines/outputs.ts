import type { ContextChange } from '../domain/cognition.ts';
import type { AckStatus, CommandStatus, VerificationStatus } from '../domain/command.ts';
import type { SigningAlg } from '../domain/device-key.ts';
import type { JsonSpan } from '../domain/json/span.ts';
import type { Manifest } from '../domain/manifest.ts';
import type { MemberRole } from '../domain/membership.ts';
import type { PlanStatus, StepStatus } from '../domain/plan.ts';
import type { MessageRefusalCode, Refusal, RefusalCode } from '../domain/refusals.ts';
import type { Telemetry } from '../domain/telemetry.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Principal, Uuid } from '../domain/values.ts';

// Outputs of machines. They are data: the runtime and its subscribers carry them out.

export const actorKinds = ['device', 'command', 'tenant', 'plan'] as const;
export type ActorKind = (typeof actorKinds)[number];

/** The address of an actor. Actors are never held by object reference. */
export interface ActorRef {
  kind: ActorKind;
  id: Uuid;
}

/** Durable: written to the outbox in the commit of its actor, delivered at least once, in order per target. */
export type DurableOutput =
  | { type: 'actor.tell'; to: ActorRef; event: ActorMessage }
  /** Sends the event to all commands of the device that are not final: the device was revoked. */
  | {
      type: 'commands.tell';
      deviceId: Uuid;
      event: ActorMessage;
      /** When the device was revoked. Absent in rows of earlier builds. */
      revokedAt?: EpochMs;
    }
  /** Sends the event to all plans of the tenant that are not final. */
  | { type: 'plans.tell'; tenantId: Uuid; event: ActorMessage }
  /** Requests the command of a step or of its compensation. An operation creates it, under the creator's authority. */
  | { type: 'plan.ask'; planId: Uuid; stepId: string; commandId: Uuid }
  /** The planner sent nothing until `dueAt`. The runtime checks whether a flag or a suspension excuses it. */
  | { type: 'plan.unheard'; planId: Uuid; dueAt: EpochMs };

/** A durable output whose resulting event is determined by a resolver outside the runtime. */
export type ResolvableOutput = Extract<DurableOutput, { type: 'plan.ask' | 'plan.unheard' }>;

/** Events that an actor may send to another through the outbox. */
export type ActorMessage = MessageToCommand | MessageToPlan;

/** Events for a command. */
export type MessageToCommand =
  | { type: 'ack.received'; deviceId: Uuid; ack: CommandAck; sequence?: ReportSequence }
  | { type: 'state.observed'; deviceId: Uuid; observed: JsonObject; matches: boolean; sequence?: ReportSequence }
  | { type: 'device.revoked'; deviceId: Uuid }
  /** The plan withdraws the command, if it is not written yet. */
  | { type: 'plan.withdrawn'; planId: Uuid };

/**
 * The sequence number of the message that reported the state, which finds its samples in the history. Absent: the message
 * had no state, or the row is of an earlier build.
 */
type ReportSequence = number;

/** Events for a plan. */
export type MessageToPlan =
  /** The status of a command that the plan requested. */
  | {
      type: 'command.moved';
      commandId: Uuid;
      status: CommandStatus;
      verification: VerificationStatus;
      critical: boolean;
      refusal: { code: RefusalCode; detail: string } | null;
      /** The device's error of a failed command, as `deviceErrorText` makes it. Absent: none, or a row of an earlier build. */
      deviceError?: string;
    }
  | { type: 'tenant.suspended' }
  | { type: 'tenant.resumed' };

/** A device's ack of a command, from the payload of `cmd_ack` (contract §4). */
export interface CommandAck {
  status: AckStatus;
  progress?: Json;
  result?: Json;
  error?: Json;
}

/** A row that is written in the commit of its actor, and lost with it if the commit conflicts. */
export type RowOutput =
  | { type: 'key.put'; deviceId: Uuid; key: DeviceKeyRow }
  /** Ends all valid keys of the device except those in `except`, from `at` on; `status` is the reason. */
  | { type: 'keys.end'; deviceId: Uuid; status: 'retired' | 'revoked'; except?: number[]; at: EpochMs }
  /** The key still verifies until `graceUntil`. */
  | { type: 'key.grace'; deviceId: Uuid; keyVersion: number; graceUntil: EpochMs }
  | { type: 'manifest.put'; manifest: Manifest }
  /** Changes the index of the device's tags; each tag is in at most one of the lists. */
  | {
      type: 'tags.change';
      deviceId: Uuid;
      deviceCreatedAt: EpochMs;
      added: readonly string[];
      removed: readonly string[];
    }
  /** Marks the proposal as accepted by this plan. If the proposal is no longer pending, neither is stored. */
  | { type: 'proposal.accept'; proposalId: Uuid; planId: Uuid }
  /** Marks the change request as applied by this commit. If it no longer waits, nothing of the commit is stored. */
  | { type: 'change.apply'; changeId: Uuid; by: Principal; at: EpochMs }
  /** The commit has imported reports in the history of the device. `at`: of their samples. */
  | { type: 'import.put'; at: EpochMs }
  /** Makes the user a member of the tenant. */
  | { type: 'member.bind'; userId: Uuid; tenantId: Uuid; role: MemberRole };

/** An accepted report, stored for the history of the device in the commit of its twin. */
export interface SamplesOutput {
  type: 'samples.put';
  at: EpochMs;
  /** The time that the device signed; `at` for an unsigned message. */
  deviceAt: EpochMs;
  sequence: number;
  /** The JSON text of the report: as it was received if all of it is kept and the device sent its canonical form. */
  text: string | JsonSpan;
  /** It is telemetry of a `hello` or `heartbeat`, and not of the state. */
  isTelemetry: boolean;
}

export interface DeviceKeyRow {
  keyVersion: number;
  signingAlg: SigningAlg;
  /** For HMAC: the sealed secret. */
  sealedSecret: string | null;
  /** For Ed25519: 32 raw bytes, base64url. */
  publicKey: string | null;
  createdAt: EpochMs;
}

/** Volatile: emitted after the transition is committed; lost if the process dies. */
export type VolatileOutput =
  | {
      type: 'device.state';
      tenantId: Uuid;
      deviceId: Uuid;
      state: JsonObject;
      /** The JSON text of the complete `state`, if the device sent one, for subscribers that forward it at once. */
      written?: JsonSpan | undefined;
      stateVersion: number;
      /** What the message reported: a merge patch of the state, or the whole state. */
      report: JsonObject;
      /** The JSON text of `report`, as it was received in a message of its own. */
      reportText?: JsonSpan | undefined;
      /** The time that the device signed; `at` for an unsigned message. */
      deviceAt: EpochMs;
      sequence: number;
      at: EpochMs;
    }
  /** Reports of the time before the registration were stored. */
  | { type: 'history.imported'; tenantId: Uuid; deviceId: Uuid }
  | { type: 'device.presence'; tenantId: Uuid; deviceId: Uuid; online: boolean; at: EpochMs }
  /** A fresh `hello` or `heartbeat` reported this. `battery`: percent. */
  | {
      type: 'device.telemetry';
      tenantId: Uuid;
      deviceId: Uuid;
      telemetry: Telemetry;
      battery?: number;
      /** The time that the device signed; `at` for an unsigned message. */
      deviceAt: EpochMs;
      at: EpochMs;
    }
  /** The device has reported more than it may store on this day; so many samples were not stored. */
  | { type: 'samples.dropped'; samples: number }
  /**
   * Ends the device's session after a revocation, rotation or deletion; with `keyVersion`, only one opened by that key.
   */
  | { type: 'session.end'; tenantId: Uuid; deviceId: Uuid; keyVersion?: number; reason: string }
  /** Replies to the message that caused the transition. `applied`: the part of a late report that changed the twin. */
  | { type: 'message.accepted'; repeat: boolean; applied?: JsonObject }
  | { type: 'message.refused'; code: MessageRefusalCode }
  /** `previousFirmware` is set if the `hello` named another version than the one before; null without one before. */
  | { type: 'hello.accepted'; lastSequence: number; keyVersion: number; previousFirmware?: string | null }
  /** Writes the command to the session. The write and its session are committed before. */
  | {
      type: 'command.write';
      tenantId: Uuid;
      deviceId: Uuid;
      commandId: Uuid;
      sessionId: string;
      critical: boolean;
      message: CommandMessage;
    }
  | {
      type: 'command.changed';
      tenantId: Uuid;
      deviceId: Uuid;
      commandId: Uuid;
      status: CommandStatus;
      verification: VerificationStatus;
      /** The last progress that the device reported, if any. */
      progress?: Json;
      /** Of a rejected command. */
      refusal?: { code: RefusalCode; detail: string };
      at: EpochMs;
    }
  /** A confirmation was requested (`awaiting_confirmation`) or closed; `status` is the command's new status. */
  | {
      type: 'confirmation.changed';
      tenantId: Uuid;
      deviceId: Uuid;
      commandId: Uuid;
      status: CommandStatus;
      expiresAt: EpochMs;
      /** Of a requested dry run, which is not in the inbox by default. */
      dryRun?: true;
      at: EpochMs;
    }
  /** The status of a plan changed or, with `stepId`, of one of its steps. */
  | {
      type: 'plan.changed';
      tenantId: Uuid;
      planId: Uuid;
      status: PlanStatus;
      stepId: string | null;
      stepStatus: StepStatus | null;
      at: EpochMs;
    }
  /** Starts comparing the device's reported states with `expected` for this command. */
  | { type: 'verification.watch'; deviceId: Uuid; commandId: Uuid; expected: JsonObject }
  | { type: 'verification.unwatch'; deviceId: Uuid; commandId: Uuid }
  | { type: 'context.changed'; change: ContextChange }
  | { type: 'tenant.changed'; tenantId: Uuid; suspended: boolean; at: EpochMs }
  /** The event was refused; nothing changed. */
  | { type: 'refused'; refusal: Refusal };

/** The payload and ids of a `cmd` message, without the fields that differ at each write. */
export interface CommandMessage {
  messageId: Uuid;
  requestId: string;
  action: string;
  params: JsonObject;
  /** For the device alone: all parameters, sealed, in place of `params`. */
  sealedParams?: string;
  /** Further parameters, for the device alone: they may contain a signed URL. */
  supplement?: JsonObject;
  issuedAt: EpochMs;
  expiresAt: EpochMs;
}

export type Output = DurableOutput | RowOutput | SamplesOutput | VolatileOutput;

/** The durability of each output. A missing output does not compile. */
const outputKinds = {
  'actor.tell': 'durable',
  'commands.tell': 'durable',
  'plans.tell': 'durable',
  'plan.ask': 'durable',
  'plan.unheard': 'durable',
  'key.put': 'row',
  'keys.end': 'row',
  'key.grace': 'row',
  'manifest.put': 'row',
  'tags.change': 'row',
  'proposal.accept': 'row',
  'change.apply': 'row',
  'import.put': 'row',
  'member.bind': 'row',
  'samples.put': 'samples',
  'device.state': 'volatile',
  'history.imported': 'volatile',
  'device.presence': 'volatile',
  'device.telemetry': 'volatile',
  'samples.dropped': 'volatile',
  'session.end': 'volatile',
  'message.accepted': 'volatile',
  'message.refused': 'volatile',
  'hello.accepted': 'volatile',
  'command.write': 'volatile',
  'command.changed': 'volatile',
  'confirmation.changed': 'volatile',
  'plan.changed': 'volatile',
  'verification.watch': 'volatile',
  'verification.unwatch': 'volatile',
  'context.changed': 'volatile',
  'tenant.changed': 'volatile',
  refused: 'volatile',
} as const satisfies Record<DurableOutput['type'], 'durable'> &
  Record<RowOutput['type'], 'row'> &
  Record<SamplesOutput['type'], 'samples'> &
  Record<VolatileOutput['type'], 'volatile'>;

export const isDurable = (output: Output): output is DurableOutput => outputKinds[output.type] === 'durable';
export const isRow = (output: Output): output is RowOutput => outputKinds[output.type] === 'row';
export const isSamples = (output: Output): output is SamplesOutput => outputKinds[output.type] === 'samples';

/** Whether the output requires a commit. */
export const needsCommit = (output: Output): output is DurableOutput | RowOutput | SamplesOutput =>
  outputKinds[output.type] !== 'volatile';

/** A timer that a transition sets or clears; `event` is delivered when it is due. */
export type TimerChange = { set: string; event: string; delay: Milliseconds } | { clear: string };
