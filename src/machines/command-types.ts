import type { CommandStatus, VerificationStatus } from '../domain/command.ts';
import type { GatewayFacts } from '../domain/gateway.ts';
import type { SafetyClass } from '../domain/manifest.ts';
import type { Compensation } from '../domain/plan.ts';
import type { SafetyPolicy } from '../domain/policy.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Principal, Uuid } from '../domain/values.ts';
import type { MessageToCommand } from './outputs.ts';

/** What confirming would do, by the twin as it was when asked. */
export interface Preview {
  current: JsonObject;
  expected: JsonObject | null;
  changes: JsonObject | null;
}

/** A live session of the device whose own `cmd` subscription stands, or null. */
export type SessionFact = { sessionId: string } | null;

/** Nineteen fields at most: V8 copies an object of more as a slow dictionary, and each step of a transition copies this. */
export interface CommandContext {
  id: Uuid;
  tenantId: Uuid;
  deviceId: Uuid;
  action: string;
  params: JsonObject;
  messageId: Uuid;
  origin: Origin;
  requestedBy: Principal;
  requestedAt: EpochMs;
  /** The word for where the lifecycle stands, kept beside the chart's value so that the other region can announce it. */
  status: CommandStatus;
  /** Null where the gateway refused before it knew. */
  safetyClass: SafetyClass | null;
  manifestVersion: number | null;
  limits: { ttlMs: Milliseconds; timeoutMs: Milliseconds };
  refusal: { code: RefusalCode; detail: string } | null;
  confirmation: Confirmation | null;
  confirmedBy: Principal | null;
  delivery: Delivery | null;
  answer: Answer;
  verification: Verification;
}

/** What the command came from. */
export interface Origin {
  requestId: string;
  /** The plan that it is a step of, or that it undoes a step of. */
  plan: PlanOrigin | null;
}

export interface PlanOrigin {
  id: Uuid;
  stepId: string;
  /**
   * What would undo it, where that is critical: who confirms the command confirms this too, for this plan and once (contract
   * §6). Of a request, whatever its class is.
   */
  compensation: Compensation | null;
}

/** The step's command as committed: what a compensation shows the gateway instead of a confirmation of its own. */
export type Approval = Pick<CommandContext, 'tenantId' | 'deviceId' | 'manifestVersion' | 'confirmedBy' | 'origin'>;

/** While a confirmation is waited for. The token is kept hashed (SHA-256, hex). */
export interface Confirmation {
  tokenHash: string;
  expiresAt: EpochMs;
  reason: string;
  preview: Preview;
  /** The client asked with `dry_run: true`. */
  asked: boolean;
}

/** From the dispatch on. */
export interface Delivery {
  dispatchedAt: EpochMs;
  /** `dispatchedAt` + `ttlMs`: a device does not start it after that. */
  expiresAt: EpochMs;
  firstWrittenAt: EpochMs | null;
  /** The last session it was written to. */
  sessionId: string | null;
  /** In how many sessions it was written. */
  writes: number;
  /** Joins the parameters in what the device receives, and is shown to nobody else: it may hold a signed URL. */
  supplement?: JsonObject;
}

/** What the device said of it. */
export interface Answer {
  progress: Json;
  result: Json;
  error: Json;
  /** When it was given up on; a final word after that is late. */
  timedOutAt: EpochMs | null;
  late: boolean;
  /** Words that came where none could count any more; counted up to a bound. */
  strayWords: number;
}

/** What the device's reported state proves of it. */
export interface Verification {
  /** The word for where the verification stands, as `status` is for the lifecycle. */
  status: VerificationStatus;
  expected: JsonObject | null;
  withinMs: Milliseconds;
  /** The expected properties as the device last reported them to this command. */
  observed: JsonObject | null;
  /** When it was last decided or looked at. */
  checkedAt: EpochMs | null;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

export type CommandEvent =
  | (Base & {
      type: 'request';
      command: Pick<
        CommandContext,
        'id' | 'tenantId' | 'deviceId' | 'action' | 'params' | 'messageId' | 'origin' | 'requestedBy'
      > & { ttlS?: number; timeoutS?: number };
      facts: GatewayFacts;
      session: SessionFact;
      /** Used when the gateway asks for a confirmation: hash of the new token, and what confirming would do. */
      confirmation: { tokenHash: string; ttlS: number; preview: Preview };
      /** Of a compensation; the machine looks at what it says. */
      approval?: Approval;
    })
  /**
   * Anything wrong with the token or the confirmer gives the output `refused` with `CONFIRMATION_FAILED`; from the inbox a
   * command that does not wait any more gives `ILLEGAL_TRANSITION`.
   */
  | (Base & {
      type: 'confirm';
      by: Principal;
      /** Null from the inbox, where identity and policy decide. */
      tokenHash: string | null;
      policy: SafetyPolicy;
      facts: GatewayFacts;
      session: SessionFact;
    })
  /** Taken back before it is written; too late gives `refused` with `ILLEGAL_TRANSITION`. */
  | (Base & { type: 'cancel'; by: Principal; reason?: string })
  /** An approver's no, while it waits for a confirmation and never later: what was approved is not refused any more. */
  | (Base & { type: 'refuse'; by: Principal; reason?: string })
  /** The device's `cmd` subscription was granted in this session: write what is pending. */
  | (Base & { type: 'session.ready'; sessionId: string })
  /** The sink knows that no byte left: the mark is taken back. */
  | (Base & { type: 'write.undone'; sessionId: string })
  | (Base & MessageToCommand);
