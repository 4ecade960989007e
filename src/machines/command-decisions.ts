import { DEFAULT_VERIFY_WITHIN_S, LATE_WORD_MS } from '../domain/command.ts';
import { dispatchLimits, type GatewayFacts, judge, mayConfirm, type Verdict } from '../domain/gateway.ts';
import type { Refusal } from '../domain/refusals.ts';
import { expectedState } from '../domain/twin.ts';
import type { EpochMs } from '../domain/values.ts';
import type { CommandContext, CommandEvent } from './command-types.ts';
import { type Decision, only, refusing } from './decision.ts';
import type { Output } from './outputs.ts';

// What the command's chart decides, as pure functions; where it goes with that is in command.ts.

/** What the gateway lets pass, with all that the command will need of the manifest. */
export interface Passed {
  kind: 'allowed' | 'confirmation';
  reason: string;
  known: Pick<CommandContext, 'ttlMs' | 'timeoutMs' | 'expected' | 'verifyWithinMs'>;
}
export type Judgement = Passed | { kind: 'refused'; refusal: Refusal };

/** Raised within one transition, so that the gateway is asked once and both regions learn of it; never sent from outside. */
export type InnerEvent =
  | { type: 'judged'; at: EpochMs; judgement: Judgement; asked: Extract<CommandEvent, { type: 'request' }> }
  | { type: 'judged.again'; at: EpochMs; judgement: Judgement; asked: Extract<CommandEvent, { type: 'confirm' }> }
  /** The lifecycle has another status now: `context.status`. */
  | { type: 'lifecycle.moved'; at: EpochMs }
  /** No late word counts any more: what a command that timed out did stays unknown. */
  | { type: 'lifecycle.closed'; at: EpochMs };

export type AnyCommandEvent = CommandEvent | InnerEvent;
type Of<Type extends AnyCommandEvent['type']> = Extract<AnyCommandEvent, { type: Type }>;
type Decided = Decision<CommandContext>;

/** Counted, not kept: beyond this a device's words on a command that is over leave no trace. */
export const MAX_STRAY_WORDS = 32;

export function judgeRequest(_: CommandContext, event: Of<'request'>): Of<'judged'> {
  const { command, facts } = event;
  const { action, params, ttlS, timeoutS } = command;
  const judgement = judgeBy({ ...facts, action, params, confirmed: false }, ttlS, timeoutS);
  return { type: 'judged', at: event.at, judgement, asked: event };
}

/** The gateway looks again when a command is confirmed; its time limits stay those of the request. */
export function judgeConfirmed({ action, params }: CommandContext, event: Of<'confirm'>): Of<'judged.again'> {
  const judgement = judgeBy({ ...event.facts, action, params, confirmed: true });
  return { type: 'judged.again', at: event.at, judgement, asked: event };
}

function judgeBy(facts: GatewayFacts, ttlS?: number, timeoutS?: number): Judgement {
  const verdict = judge(facts);
  return verdict.kind === 'refused' ? verdict : passed(verdict, facts, ttlS, timeoutS);
}

function passed(
  verdict: Exclude<Verdict, { kind: 'refused' }>,
  facts: GatewayFacts,
  ttlS?: number,
  timeoutS?: number,
): Judgement {
  const { capability, kind } = verdict;
  const limits = dispatchLimits(capability.safetyClass, ttlS, timeoutS);
  if (!limits.ok) return { kind: 'refused', refusal: limits.refusal };
  return {
    kind,
    reason: verdict.kind === 'confirmation' ? verdict.reason : '',
    known: {
      ...limits.value,
      expected: expectedState(capability.expectedState, facts.params),
      verifyWithinMs: (capability.verify_within_s ?? DEFAULT_VERIFY_WITHIN_S) * 1_000,
    },
  };
}

/** What is known of every command, a refused one too. */
export function record(context: CommandContext, { at, judgement, asked }: Of<'judged'>): Decided {
  const { ttlS: _ttl, timeoutS: _timeout, ...command } = asked.command;
  const manifest = asked.facts.manifest;
  const capability = manifest?.capabilities.find((one) => one.action === command.action);
  const known = judgement.kind === 'refused' ? {} : judgement.known;
  return {
    changes: {
      ...context,
      ...command,
      ...known,
      requestedAt: at,
      safetyClass: capability?.safetyClass ?? null,
      manifestVersion: manifest?.version ?? null,
    },
    outputs: [],
  };
}

export const reject = (_: CommandContext, { judgement }: Of<'judged'>): Decided => {
  if (judgement.kind !== 'refused') return only();
  const { code, detail } = judgement.refusal;
  return { changes: { refusal: { code, detail } }, outputs: [] };
};

export function awaitConfirmation(_: CommandContext, { at, judgement, asked }: Of<'judged'>): Decided {
  const { tokenHash, ttlS, preview } = asked.confirmation;
  const reason = judgement.kind === 'refused' ? '' : judgement.reason;
  const confirmation = { tokenHash, expiresAt: at + ttlS * 1_000, reason, preview, asked: asked.facts.dryRun };
  return { changes: { confirmation }, outputs: [] };
}

/**
 * Why this confirmation does not count, or null. None of these uses the token up: it was not the holder's fault, or not
 * the holder at all.
 */
export function confirmationRefusal(context: CommandContext, event: Of<'confirm'>): Refusal | null {
  const { confirmation, requestedBy, manifestVersion } = context;
  const failed = (detail: string): Refusal => ({ code: 'CONFIRMATION_FAILED', detail });
  if (confirmation === null) return failed('There is nothing to confirm.');
  if (event.at >= confirmation.expiresAt) return failed('The confirmation came too late.');
  const { tokenHash, facts } = event;
  const claim = tokenHash === null ? { inbox: true as const } : { holdsToken: tokenHash === confirmation.tokenHash };
  const allowed = mayConfirm(event.policy, requestedBy, event.by, claim);
  if (!allowed.ok) return allowed.refusal;
  if (facts.manifest !== null && facts.manifest.version !== manifestVersion) {
    return failed("The device's manifest has changed since the request.");
  }
  return null;
}

export function refuseConfirmation(context: CommandContext, event: Of<'confirm'>): Decided {
  const refusal = confirmationRefusal(context, event);
  return refusal ? only({ type: 'refused', refusal }) : only();
}

export const refuseByGateway = (_: CommandContext, { judgement }: Of<'judged.again'>): Decided =>
  judgement.kind === 'refused' ? only({ type: 'refused', refusal: judgement.refusal }) : only();

export const refuseCancel = ({ status }: CommandContext): Decided =>
  refusing('ILLEGAL_TRANSITION', `The command is ${status} and cannot be cancelled.`);

/** The clock of `ttl_s` starts here, for a confirmed command at its confirmation. */
export function dispatch(context: CommandContext, event: Of<'judged' | 'judged.again'>): Decided {
  const { at } = event;
  const confirmedBy = event.type === 'judged.again' ? event.asked.by : null;
  return {
    changes: { confirmedBy, dispatchedAt: at, expiresAt: at + context.ttlMs },
    outputs: [],
  };
}

export const sessionOf = (event: AnyCommandEvent): string | null => {
  switch (event.type) {
    case 'judged':
    case 'judged.again':
      return event.asked.session?.sessionId ?? null;
    case 'session.ready':
      return event.sessionId;
    default:
      return null;
  }
};

/** Committed as written before the bytes leave; `timeout_s` counts from the first time. */
export function write(context: CommandContext, event: Of<'judged' | 'judged.again' | 'session.ready'>): Decided {
  const sessionId = sessionOf(event);
  const { dispatchedAt, expiresAt, tenantId, deviceId, id, messageId, requestId, action, params } = context;
  if (sessionId === null || dispatchedAt === null || expiresAt === null) return only();
  const output: Output = {
    type: 'command.write',
    tenantId,
    deviceId,
    commandId: id,
    sessionId,
    critical: context.safetyClass === 'CRITICAL',
    message: { messageId, requestId, action, params, issuedAt: dispatchedAt, expiresAt },
  };
  const firstWrittenAt = context.firstWrittenAt ?? event.at;
  return { changes: { sessionId, firstWrittenAt, writes: context.writes + 1 }, outputs: [output] };
}

export const mayWrite = ({ expiresAt }: CommandContext, at: EpochMs): boolean => expiresAt !== null && at < expiresAt;

/** A CRITICAL command is written once, ever; another at most once per session. */
export const mayWriteAgain = (context: CommandContext, { at, sessionId }: Of<'session.ready'>): boolean =>
  context.safetyClass !== 'CRITICAL' && context.sessionId !== sessionId && mayWrite(context, at);

/** No byte of the only write left, so it never happened. */
export const isOnlyWrite = ({ writes, sessionId }: CommandContext, event: Of<'write.undone'>): boolean =>
  writes === 1 && sessionId === event.sessionId;

export const undoWrite = (): Decided => ({
  changes: { sessionId: null, firstWrittenAt: null, writes: 0 },
  outputs: [],
});

export function keepWord(context: CommandContext, { ack }: Of<'ack.received'>): Decided {
  const { progress = context.progress, result = context.result, error = context.error } = ack;
  return { changes: { progress, result, error, late: context.timedOutAt !== null }, outputs: [] };
}

export const isOwn = (context: CommandContext, { deviceId }: { deviceId: string }): boolean =>
  context.deviceId === deviceId;

export const isStillHeard = ({ timedOutAt }: CommandContext, at: EpochMs): boolean =>
  timedOutAt === null || at - timedOutAt <= LATE_WORD_MS;

export const countStrayWord = ({ strayWords }: CommandContext): Decided => ({
  changes: { strayWords: strayWords + 1 },
  outputs: [],
});

export const closeConfirmation = (): Decided => ({ changes: { confirmation: null }, outputs: [] });

export const announce = (context: CommandContext, { at }: { at: EpochMs }): Decided => {
  const { tenantId, deviceId, id: commandId, status, verification } = context;
  return only({ type: 'command.changed', tenantId, deviceId, commandId, status, verification, at });
};

export const watch = ({ deviceId, id: commandId, expected }: CommandContext): Decided =>
  expected === null ? only() : only({ type: 'verification.watch', deviceId, commandId, expected });

export const unwatch = ({ deviceId, id: commandId }: CommandContext): Decided =>
  only({ type: 'verification.unwatch', deviceId, commandId });

export const observe = (_: CommandContext, { at, observed }: Of<'state.observed'>): Decided => ({
  changes: { observed, checkedAt: at },
  outputs: [],
});
