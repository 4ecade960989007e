import type { CommandStatus, VerificationStatus } from '../domain/command.ts';
import type { GatewayFacts } from '../domain/gateway.ts';
import type { SafetyClass } from '../domain/manifest.ts';
import type { Compensation } from '../domain/plan.ts';
import type { ConfirmationRules } from '../domain/policy.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import type { Preview } from '../domain/twin.ts';
import {
  type EpochMs,
  type Json,
  type JsonObject,
  type Milliseconds,
  type Principal,
  SYSTEM,
  type Uuid,
} from '../domain/values.ts';
import type { MessageToCommand } from './outputs.ts';

/** A live session of the device with a granted `cmd` subscription, or null. */
export type SessionFact = { sessionId: string } | null;

export interface CommandContext {
  fixed: CommandFixed;
  live: CommandLive;
}

/** The request, its judgement and its confirmation: unchanged from the dispatch on. */
export interface CommandFixed {
  id: Uuid;
  tenantId: Uuid;
  deviceId: Uuid;
  action: string;
  /** Without the values of `writeOnly` parameters. */
  params: JsonObject;
  messageId: Uuid;
  origin: Origin;
  requestedBy: Principal;
  requestedAt: EpochMs;
  /** Null if the gateway refused the command before the class was known. */
  safetyClass: SafetyClass | null;
  manifestVersion: number | null;
  limits: { ttlMs: Milliseconds; timeoutMs: Milliseconds };
  refusal: { code: RefusalCode; detail: string } | null;
  confirmation: Confirmation | null;
  confirmedBy: Principal | null;
}

/** Progress: delivery, acks and verification. */
export interface CommandLive {
  /** The status of the lifecycle region, duplicated here so that the verification region can announce it. */
  status: CommandStatus;
  delivery: Delivery | null;
  answer: CommandAcks;
  verification: Verification;
  /**
   * All parameters with the values of `writeOnly` ones, sealed, as long as the command may have to be sent; null when they
   * were dropped. Absent if the action has no such parameters.
   */
  sealedParams?: string | null;
}

/** The origin of the command. */
export interface Origin {
  requestId: string;
  /** The plan whose step the command executes or compensates. */
  plan: PlanOrigin | null;
}

export interface PlanOrigin {
  id: Uuid;
  stepId: string;
  /**
   * The compensation of the step, if it is critical: a confirmation of the command covers it too, once and for this
   * plan (contract §6). In a request, the compensation of any class.
   */
  compensation: Compensation | null;
}

/**
 * The committed command of the step, which a compensation presents to the gateway instead of a separate confirmation.
 */
export type Approval = Pick<CommandFixed, 'tenantId' | 'deviceId' | 'manifestVersion' | 'confirmedBy' | 'origin'>;

/** A pending confirmation. The token is stored as a hash (SHA-256, hex). */
export interface Confirmation {
  tokenHash: string;
  expiresAt: EpochMs;
  reason: string;
  preview: Preview;
  /** The client sent `dry_run: true`. */
  asked: boolean;
}

/** The effect of a command at its confirmation. */
export interface ConfirmedEffect {
  preview: Preview;
  /** Whether the confirmer has named this effect; null if none was named: then that of the request is confirmed. */
  isNamed: boolean | null;
}

/** Set at dispatch. */
export interface Delivery {
  dispatchedAt: EpochMs;
  /** `dispatchedAt` + `ttlMs`: a device does not start the command after this time. */
  expiresAt: EpochMs;
  firstWrittenAt: EpochMs | null;
  /** The last session that the command was written to. */
  sessionId: string | null;
  /** The number of sessions that the command was written to. */
  writes: number;
  /** Added to the parameters sent to the device. Never shown otherwise: it may contain a signed URL. */
  supplement?: JsonObject;
}

/** The device's acks. */
export interface CommandAcks {
  progress: Json;
  result: Json;
  error: Json;
  /** When the command timed out; a final ack after that is late. */
  timedOutAt: EpochMs | null;
  late: boolean;
  /** Acks that arrived when none was accepted any longer, counted up to `MAX_LATE_ACKS`. */
  strayWords: number;
}

/** Verification of the command by the device's reported state. */
export interface Verification {
  /** The status of the verification region, as `status` is of the lifecycle region. */
  status: VerificationStatus;
  expected: JsonObject | null;
  withinMs: Milliseconds;
  /** The expected properties in the last report that this command received. */
  observed: JsonObject | null;
  /** When the verification was last checked or decided. */
  checkedAt: EpochMs | null;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

/** The context before the first event. A field that is missing here does not compile. */
export const initialCommand: CommandContext = {
  fixed: {
    id: '',
    tenantId: '',
    deviceId: '',
    action: '',
    requestedAt: 0,
    // The other members are not columns, and are in the order in which `jsonb` has them, so that the database does not sort.
    limits: { ttlMs: 0, timeoutMs: 0 },
    origin: { requestId: '', plan: null },
    params: {},
    refusal: null,
    messageId: '',
    confirmedBy: null,
    requestedBy: SYSTEM,
    safetyClass: null,
    confirmation: null,
    manifestVersion: null,
  },
  live: {
    status: 'submitted',
    delivery: null,
    answer: { progress: null, result: null, error: null, timedOutAt: null, late: false, strayWords: 0 },
    verification: { status: 'pending', expected: null, withinMs: 0, observed: null, checkedAt: null },
  },
};

export type CommandEvent =
  | (Base & {
      type: 'request';
      command: Pick<
        CommandFixed,
        'id' | 'tenantId' | 'deviceId' | 'action' | 'params' | 'messageId' | 'origin' | 'requestedBy'
      > & { ttlS?: number; timeoutS?: number; sealedParams?: string };
      /** Its `params` are judged if some of those of the command are sealed. */
      facts: GatewayFacts;
      session: SessionFact;
      /** Used if the gateway requires a confirmation: hash of the new token, and the effect of confirming. */
      confirmation: { tokenHash: string; ttlS: number; preview: Preview };
      /** Set for a compensation; the machine verifies what it covers. */
      approval?: Approval;
    })
  /**
   * Refused with `CONFIRMATION_FAILED` if the token or the confirmer is not valid, with `ILLEGAL_TRANSITION` if the
   * command, confirmed from the inbox, no longer waits, and with `DRY_RUN_REQUIRED` if it has another effect than the
   * one that is confirmed.
   */
  | (Base & {
      type: 'confirm';
      by: Principal;
      /** Null from the inbox, where only identity and policy decide. */
      tokenHash: string | null;
      /** The policy, and stricter ones since the command, or its plan, began to wait. */
      rules: ConfirmationRules;
      /** Requester or confirmer used an API key that was presented at `/mcp`. */
      agentKey?: boolean;
      /** Its `params` are judged if some of those of the command are sealed. */
      facts: GatewayFacts;
      session: SessionFact;
      effect: ConfirmedEffect;
    })
  /** Cancels the command before it is written; later refused with `ILLEGAL_TRANSITION`. */
  | (Base & { type: 'cancel'; by: Principal; reason?: string })
  /**
   * An approver refuses the confirmation, only while the command waits for it: an approved command cannot be refused.
   */
  | (Base & { type: 'refuse'; by: Principal; reason?: string })
  /** The device's `cmd` subscription was granted in this session: pending commands are written. */
  | (Base & { type: 'session.ready'; sessionId: string })
  /** No byte of the command was sent: the write marker is reverted. */
  | (Base & { type: 'write.undone'; sessionId: string })
  | (Base & MessageToCommand);
