import { DEFAULT_VERIFY_WITHIN_S, LATE_WORD_MS } from '../domain/command.ts';
import {
  type DispatchLimits,
  dispatchLimits,
  type GatewayFacts,
  judge,
  mayConfirm,
  type Verdict,
} from '../domain/gateway.ts';
import type { Refusal } from '../domain/refusals.ts';
import { expectedState } from '../domain/twin.ts';
import type { EpochMs, JsonObject, Milliseconds } from '../domain/values.ts';
import type { Answer, CommandContext, CommandEvent, Verification } from './command-types.ts';
import { type Decision, only, refusing } from './decision.ts';
import type { Output } from './outputs.ts';

// What the command's chart decides, as pure functions; where it goes with that is in command.ts.

/** What the gateway lets pass, with all that the command will need of the manifest. */
export interface Passed {
  kind: 'allowed' | 'confirmation';
  reason: string;
  limits: DispatchLimits;
  expected: JsonObject | null;
  verifyWithinMs: Milliseconds;
}
export type Judgement = Passed | { kind: 'refused'; refusal: Refusal };

/** Raised by the command itself within one transition, so that both regions learn of it; never sent from outside. */
export type InnerEvent =
  | { type: 'self.judged'; at: EpochMs; judgement: Judgement; asked: Extract<CommandEvent, { type: 'request' }> }
  | { type: 'self.judged_again'; at: EpochMs; judgement: Judgement; asked: Extract<CommandEvent, { type: 'confirm' }> }
  /** The lifecycle has another status now: `context.status`. */
  | { type: 'self.moved'; at: EpochMs }
  /** No late word counts any more: what a command that timed out did stays unknown. */
  | { type: 'self.closed'; at: EpochMs };

export type AnyCommandEvent = CommandEvent | InnerEvent;
type Of<Type extends AnyCommandEvent['type']> = Extract<AnyCommandEvent, { type: Type }>;
type Decided = Decision<CommandContext>;

/** Counted, not kept: beyond this a device's words on a command that is over leave no trace. */
export const MAX_STRAY_WORDS = 32;

export function judgeRequest(_: CommandContext, event: Of<'request'>): Of<'self.judged'> {
  const { command, facts } = event;
  const { action, params, ttlS, timeoutS } = command;
  const judgement = judgeBy({ ...facts, action, params, confirmed: false }, ttlS, timeoutS);
  return { type: 'self.judged', at: event.at, judgement, asked: event };
}

/** The gateway looks again when a command is confirmed; its time limits stay those of the request. */
export function judgeConfirmed({ action, params }: CommandContext, event: Of<'confirm'>): Of<'self.judged_again'> {
  const judgement = judgeBy({ ...event.facts, action, params, confirmed: true });
  return { type: 'self.judged_again', at: event.at, judgement, asked: event };
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
    limits: limits.value,
    expected: expectedState(capability.expectedState, facts.params),
    verifyWithinMs: (capability.verify_within_s ?? DEFAULT_VERIFY_WITHIN_S) * 1_000,
  };
}

/** What is known of every command, a refused one too. */
export function record(context: CommandContext, { at, judgement, asked }: Of<'self.judged'>): Decided {
  const { ttlS: _ttl, timeoutS: _timeout, ...command } = asked.command;
  const manifest = asked.facts.manifest;
  const capability = manifest?.capabilities.find((one) => one.action === command.action);
  const changes: Partial<CommandContext> = {
    ...command,
    requestedAt: at,
    safetyClass: capability?.safetyClass ?? null,
    manifestVersion: manifest?.version ?? null,
  };
  if (judgement.kind === 'refused') {
    const { code, detail } = judgement.refusal;
    changes.refusal = { code, detail };
  } else {
    const { limits, expected, verifyWithinMs: withinMs } = judgement;
    changes.limits = limits;
    changes.verification = { ...context.verification, expected, withinMs };
  }
  return { changes, outputs: [] };
}

export function awaitConfirmation(_: CommandContext, { at, judgement, asked }: Of<'self.judged'>): Decided {
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

export const refuseByGateway = (_: CommandContext, { judgement }: Of<'self.judged_again'>): Decided =>
  judgement.kind === 'refused' ? only({ type: 'refused', refusal: judgement.refusal }) : only();

export const refuseCancel = ({ status }: CommandContext): Decided =>
  refusing('ILLEGAL_TRANSITION', `The command is ${status} and cannot be cancelled.`);

/** The clock of `ttl_s` starts here, for a confirmed command at its confirmation. */
export function dispatch({ limits }: CommandContext, event: Of<'self.judged' | 'self.judged_again'>): Decided {
  const { at } = event;
  const confirmedBy = event.type === 'self.judged_again' ? event.asked.by : null;
  const delivery = { dispatchedAt: at, expiresAt: at + limits.ttlMs, firstWrittenAt: null, sessionId: null, writes: 0 };
  return { changes: { confirmedBy, delivery }, outputs: [] };
}

export const sessionOf = (event: AnyCommandEvent): string | null => {
  switch (event.type) {
    case 'self.judged':
    case 'self.judged_again':
      return event.asked.session?.sessionId ?? null;
    case 'session.ready':
      return event.sessionId;
    default:
      return null;
  }
};

/** Committed as written before the bytes leave; `timeout_s` counts from the first time. */
export function write(
  context: CommandContext,
  event: Of<'self.judged' | 'self.judged_again' | 'session.ready'>,
): Decided {
  const sessionId = sessionOf(event);
  const { delivery, tenantId, deviceId, id, messageId, requestId, action, params } = context;
  if (sessionId === null || delivery === null) return only();
  const { dispatchedAt, expiresAt, firstWrittenAt, writes } = delivery;
  const output: Output = {
    type: 'command.write',
    tenantId,
    deviceId,
    commandId: id,
    sessionId,
    critical: context.safetyClass === 'CRITICAL',
    message: { messageId, requestId, action, params, issuedAt: dispatchedAt, expiresAt },
  };
  const written = { ...delivery, sessionId, firstWrittenAt: firstWrittenAt ?? event.at, writes: writes + 1 };
  return { changes: { delivery: written }, outputs: [output] };
}

/** `timeout_s` after the first write. */
export const answerDue = ({ delivery, limits }: CommandContext, at: EpochMs): EpochMs =>
  (delivery?.firstWrittenAt ?? at) + limits.timeoutMs;

export const mayWrite = ({ delivery }: CommandContext, at: EpochMs): boolean =>
  delivery !== null && at < delivery.expiresAt;

/** A CRITICAL command is written once, ever; another at most once per session. */
export const mayWriteAgain = (context: CommandContext, { at, sessionId }: Of<'session.ready'>): boolean =>
  context.safetyClass !== 'CRITICAL' && context.delivery?.sessionId !== sessionId && mayWrite(context, at);

/** No byte of the only write left, so it never happened. */
export const isOnlyWrite = ({ delivery }: CommandContext, event: Of<'write.undone'>): boolean =>
  delivery?.writes === 1 && delivery.sessionId === event.sessionId;

export const undoWrite = ({ delivery }: CommandContext): Decided =>
  delivery === null
    ? only()
    : { changes: { delivery: { ...delivery, sessionId: null, firstWrittenAt: null, writes: 0 } }, outputs: [] };

const answered = (context: CommandContext, said: Partial<Answer>): Decided => ({
  changes: { answer: { ...context.answer, ...said } },
  outputs: [],
});

export function keepWord(context: CommandContext, { ack }: Of<'ack.received'>): Decided {
  const { answer } = context;
  const { progress = answer.progress, result = answer.result, error = answer.error } = ack;
  return answered(context, { progress, result, error, late: answer.timedOutAt !== null });
}

export const stampTimeout = (context: CommandContext, { at }: { at: EpochMs }): Decided =>
  answered(context, { timedOutAt: at });

export const countStrayWord = (context: CommandContext): Decided =>
  answered(context, { strayWords: context.answer.strayWords + 1 });

export const isOwn = (context: CommandContext, { deviceId }: { deviceId: string }): boolean =>
  context.deviceId === deviceId;

export const isStillHeard = ({ answer }: CommandContext, at: EpochMs): boolean =>
  answer.timedOutAt === null || at - answer.timedOutAt <= LATE_WORD_MS;

export const isCounted = (context: CommandContext): boolean => context.answer.strayWords < MAX_STRAY_WORDS;

export const closeConfirmation = (): Decided => ({ changes: { confirmation: null }, outputs: [] });

export const announce = (context: CommandContext, { at }: { at: EpochMs }): Decided => {
  const { tenantId, deviceId, id: commandId, status, verification } = context;
  return only({
    type: 'command.changed',
    tenantId,
    deviceId,
    commandId,
    status,
    verification: verification.status,
    at,
  });
};

export const watch = ({ deviceId, id: commandId, verification: { expected } }: CommandContext): Decided =>
  expected === null ? only() : only({ type: 'verification.watch', deviceId, commandId, expected });

export const unwatch = ({ deviceId, id: commandId }: CommandContext): Decided =>
  only({ type: 'verification.unwatch', deviceId, commandId });

export const checked = (context: CommandContext, at: EpochMs, found: Partial<Verification>) => ({
  verification: { ...context.verification, ...found, checkedAt: at },
});

export const observe = (context: CommandContext, { at, observed }: Of<'state.observed'>): Decided => ({
  changes: checked(context, at, { observed }),
  outputs: [],
});
