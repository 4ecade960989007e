import type { Caller } from '../../operations/operation.ts';

/** The user's answer to an elicitation. */
export interface ElicitationReply {
  accepted: boolean;
  /** The caller of the answer, with the permissions at that time: they may have changed since the tool call. */
  caller: Caller;
}

/** Communication with the client during a tool call: elicitation, progress and cancellation. */
export interface ClientInteraction {
  /**
   * Sends the user a yes-or-no question. Null if the client does not support elicitation, or if the user did not
   * answer.
   */
  elicit(question: string, untilMs: number): Promise<ElicitationReply | null>;
  /** Null if the client sent no progress token. `done` must increase from one call to the next. */
  reportProgress: ((done: number, total: number, message: string) => void) | null;
  /** Aborts when the client cancels the request. A broken connection does not cancel it. */
  cancelled: AbortSignal;
  /** Aborts when the service shuts down: a tool that is waiting answers with the current state. */
  stopping: AbortSignal;
}
