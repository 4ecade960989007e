import type { ContextChange } from '../domain/cognition.ts';
import type { AckStatus, CommandStatus, VerificationStatus } from '../domain/command.ts';
import type { JsonSpan } from '../domain/json/span.ts';
import type { Manifest } from '../domain/manifest.ts';
import type { PlanStatus, StepStatus } from '../domain/plan.ts';
import type { MessageRefusalCode, Refusal, RefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Uuid } from '../domain/values.ts';

/** What a machine may say. It is data; the runtime and its sinks decide what becomes of it. */
export type ActorKind = 'device' | 'command' | 'tenant' | 'plan';

/** How an actor is addressed everywhere; nobody holds an actor by reference. */
export interface ActorRef {
  kind: ActorKind;
  id: Uuid;
}

/** Durable: written to the outbox in the commit of its actor, delivered at least once, in order per target. */
export type DurableOutput =
  | { type: 'actor.tell'; to: ActorRef; event: ActorMessage }
  /** Tell every command of the device that is not final that its device was revoked. */
  | {
      type: 'commands.tell';
      deviceId: Uuid;
      event: ActorMessage;
      /** When the device was revoked. Rows of earlier builds have none. */
      revokedAt?: EpochMs;
    }
  /** Tell every plan of the tenant that is not over. */
  | { type: 'plans.tell'; tenantId: Uuid; event: ActorMessage }
  /** Ask for the command of a step, or for the one that undoes it; an operation does that, under the creator's authority. */
  | { type: 'plan.ask'; planId: Uuid; stepId: string; commandId: Uuid }
  /** Nobody was heard of about the plan until `dueAt`: ask whether something excuses it. */
  | { type: 'plan.unheard'; planId: Uuid; dueAt: EpochMs };

/** A durable output of which something outside the runtime knows what it comes to. */
export type ResolvableOutput = Extract<DurableOutput, { type: 'plan.ask' | 'plan.unheard' }>;

/** Events that one actor may send to another through the outbox. */
export type ActorMessage = MessageToCommand | MessageToPlan;

/** To a command. */
export type MessageToCommand =
  | { type: 'ack.received'; deviceId: Uuid; ack: CommandAck }
  | { type: 'state.observed'; deviceId: Uuid; observed: JsonObject; matches: boolean }
  | { type: 'device.revoked'; deviceId: Uuid }
  /** Its plan takes it back, where it is not written yet. */
  | { type: 'plan.withdrawn'; planId: Uuid };

/** To a plan. */
export type MessageToPlan =
  /** How a command that it asked for stands. */
  | {
      type: 'command.moved';
      commandId: Uuid;
      status: CommandStatus;
      verification: VerificationStatus;
      critical: boolean;
      refusal: { code: RefusalCode; detail: string } | null;
    }
  | { type: 'tenant.suspended' }
  | { type: 'tenant.resumed' };

/** A device's word on a command, as `cmd_ack` carries it (contract §4). */
export interface CommandAck {
  status: AckStatus;
  progress?: Json;
  result?: Json;
  error?: Json;
}

/** A row that joins the commit of its actor: nothing of it remains when the actor's commit is lost. */
export type RowOutput =
  | { type: 'key.put'; deviceId: Uuid; key: DeviceKeyRow }
  /** Every live key of the device but those in `except` is dead from `at` on; `status` says why. */
  | { type: 'keys.end'; deviceId: Uuid; status: 'retired' | 'revoked'; except?: number[]; at: EpochMs }
  /** The key goes on verifying until `graceUntil`. */
  | { type: 'key.grace'; deviceId: Uuid; keyVersion: number; graceUntil: EpochMs }
  | { type: 'manifest.put'; manifest: Manifest }
  /** The plan is what its proposal came to. Nothing is kept of either where that does not wait for it any more. */
  | { type: 'proposal.accept'; proposalId: Uuid; planId: Uuid }
  /** The user becomes a member. */
  | { type: 'member.bind'; userId: Uuid; tenantId: Uuid; role: 'owner' | 'admin' | 'user' | 'viewer' };

export interface DeviceKeyRow {
  keyVersion: number;
  signingAlg: 'hmac-sha256' | 'ed25519';
  /** HMAC: the sealed secret. */
  sealedSecret: string | null;
  /** Ed25519: 32 raw bytes, base64url. */
  publicKey: string | null;
  createdAt: EpochMs;
}

/** Volatile: emitted once the transition is durable; may die with the process. */
export type VolatileOutput =
  | {
      type: 'device.state';
      tenantId: Uuid;
      deviceId: Uuid;
      state: JsonObject;
      /** A JSON text of all of `state`, where the device wrote one: for who tells it at once. */
      written?: JsonSpan | undefined;
      stateVersion: number;
      at: EpochMs;
    }
  | { type: 'device.presence'; tenantId: Uuid; deviceId: Uuid; online: boolean; at: EpochMs }
  /** The session must end: revoked, rotated out, deleted. Without `keyVersion` whatever key opened it. */
  | { type: 'session.end'; tenantId: Uuid; deviceId: Uuid; keyVersion?: number; reason: string }
  /** Answers to the message that caused the turn. `applied`: of a report that arrived after a later one, the part that the twin took. */
  | { type: 'message.accepted'; repeat: boolean; applied?: JsonObject }
  | { type: 'message.refused'; code: MessageRefusalCode }
  | { type: 'hello.accepted'; lastSequence: number; keyVersion: number }
  /** Write the command to the session: that it is written, and to which session, is committed already. */
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
      at: EpochMs;
    }
  /** A confirmation is asked for (`awaiting_confirmation`), or over; `status` is the command's from then on. */
  | {
      type: 'confirmation.changed';
      tenantId: Uuid;
      deviceId: Uuid;
      commandId: Uuid;
      status: CommandStatus;
      expiresAt: EpochMs;
      at: EpochMs;
    }
  /** A plan went on, or, with `stepId`, one of its steps. */
  | {
      type: 'plan.changed';
      tenantId: Uuid;
      planId: Uuid;
      status: PlanStatus;
      stepId: string | null;
      stepStatus: StepStatus | null;
      at: EpochMs;
    }
  /** From now on the device's reported states are compared with `expected` for this command. */
  | { type: 'verification.watch'; deviceId: Uuid; commandId: Uuid; expected: JsonObject }
  | { type: 'verification.unwatch'; deviceId: Uuid; commandId: Uuid }
  | { type: 'context.changed'; change: ContextChange }
  | { type: 'tenant.changed'; tenantId: Uuid; suspended: boolean; at: EpochMs }
  /** The event was understood and refused; nothing else changed. */
  | { type: 'refused'; refusal: Refusal };

/** What `cmd` carries, apart from what is fresh at each write. */
export interface CommandMessage {
  messageId: Uuid;
  requestId: string;
  action: string;
  params: JsonObject;
  issuedAt: EpochMs;
  expiresAt: EpochMs;
}

export type Output = DurableOutput | RowOutput | VolatileOutput;

/** How each output is kept. An output that is missing here does not compile. */
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
  'proposal.accept': 'row',
  'member.bind': 'row',
  'device.state': 'volatile',
  'device.presence': 'volatile',
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
  Record<VolatileOutput['type'], 'volatile'>;

export const isDurable = (output: Output): output is DurableOutput => outputKinds[output.type] === 'durable';
export const isRow = (output: Output): output is RowOutput => outputKinds[output.type] === 'row';

/** It takes a commit. */
export const needsCommit = (output: Output): output is DurableOutput | RowOutput =>
  outputKinds[output.type] !== 'volatile';

/** A timer that a transition sets or clears; `event` is delivered when it is due. */
export type TimerChange = { set: string; event: string; delay: Milliseconds } | { clear: string };
