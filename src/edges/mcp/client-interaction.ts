import type { Caller } from '../../operations/operation.ts';

/** What the client's user said. */
export interface ElicitationReply {
  accepted: boolean;
  /** Who answered, as they are now: while they were asked they may have lost what they had when they called. */
  caller: Caller;
}

/** How the client can be spoken to while it waits for a tool. */
export interface ClientInteraction {
  /** Asks the client's user a yes-or-no question; null where the client cannot ask, or nobody answered. */
  elicit(question: string, untilMs: number): Promise<ElicitationReply | null>;
  /** Tells how far it is, or null where the client did not ask to know. `done` must grow from one call to the next. */
  reportProgress: ((done: number, total: number, words: string) => void) | null;
  /** The client took its request back. That its connection broke is no such thing. */
  cancelled: AbortSignal;
  /** The service is going down: who waits for something answers with what there is. */
  stopping: AbortSignal;
}
