import type { CommandStatus, VerificationStatus } from '../domain/command.ts';
import type { GatewayFacts } from '../domain/gateway.ts';
import type { SafetyClass } from '../domain/manifest.ts';
import type { SafetyPolicy } from '../domain/policy.ts';
import type { RefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Principal, Uuid } from '../domain/values.ts';
import type { TellEvent } from './outputs.ts';

/** What confirming would do, by the twin as it was when asked. */
export interface Preview {
  current: JsonObject;
  expected: JsonObject | null;
  changes: JsonObject | null;
}

/** A live session of the device whose own `cmd` subscription stands, or null. */
export type SessionFact = { sessionId: string } | null;

export interface CommandContext {
  /** The words for where the two regions stand, kept beside the chart's value so that either can announce both. */
  status: CommandStatus;
  verification: VerificationStatus;
  id: Uuid;
  tenantId: Uuid;
  deviceId: Uuid;
  action: string;
  params: JsonObject;
  safetyClass: SafetyClass | null;
  manifestVersion: number | null;
  messageId: Uuid;
  requestId: string;
  requestedBy: Principal;
  requestedAt: EpochMs;
  ttlMs: Milliseconds;
  timeoutMs: Milliseconds;
  /** Waiting for a confirmation. The token is kept hashed (SHA-256, hex). */
  confirmation: {
    tokenHash: string;
    expiresAt: EpochMs;
    reason: string;
    preview: Preview;
    /** The client asked with `dry_run: true`. */
    asked: boolean;
  } | null;
  confirmedBy: Principal | null;
  dispatchedAt: EpochMs | null;
  /** `dispatchedAt` + `ttlMs`: a device does not start it after that. */
  expiresAt: EpochMs | null;
  firstWrittenAt: EpochMs | null;
  /** The last session it was written to. */
  sessionId: string | null;
  /** In how many sessions it was written. */
  writes: number;
  refusal: { code: RefusalCode; detail: string } | null;
  progress: Json;
  result: Json;
  error: Json;
  late: boolean;
  timedOutAt: EpochMs | null;
  /** Words of the device that came where none could count any more; counted up to a bound. */
  strayWords: number;
  expected: JsonObject | null;
  verifyWithinMs: Milliseconds;
  /** The expected properties as the device last reported them to this command. */
  observed: JsonObject | null;
  /** When verification was last decided or looked at. */
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
        'id' | 'tenantId' | 'deviceId' | 'action' | 'params' | 'messageId' | 'requestId' | 'requestedBy'
      > & { ttlS?: number; timeoutS?: number };
      facts: GatewayFacts;
      session: SessionFact;
      /** Used when the gateway asks for a confirmation: hash of the new token, and what confirming would do. */
      confirmation: { tokenHash: string; ttlS: number; preview: Preview };
    })
  /** Anything wrong with the token or the confirmer gives the output `refused` with `CONFIRMATION_FAILED`. */
  | (Base & {
      type: 'confirm';
      by: Principal;
      /** Null from the inbox, where identity and policy decide. */
      tokenHash: string | null;
      policy: SafetyPolicy;
      facts: GatewayFacts;
      session: SessionFact;
    })
  /** From the caller (`cancel`) or an approver (`refuse`); too late gives `refused` with `ILLEGAL_TRANSITION`. */
  | (Base & { type: 'cancel'; by: Principal; reason?: string })
  /** The device's `cmd` subscription was granted in this session: write what is pending. */
  | (Base & { type: 'session.ready'; sessionId: string })
  /** The sink knows that no byte left: the mark is taken back. */
  | (Base & { type: 'write.undone'; sessionId: string })
  | (Base & TellEvent);
