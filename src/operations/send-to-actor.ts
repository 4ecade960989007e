import type { Reply } from '../actors/contract.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import type { MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorRef, Output } from '../machines/outputs.ts';
import type { IdempotencyRow } from '../store/contract.ts';
import type { Services } from './operation.ts';

/** The refusal among an actor's outputs, or null. */
export function refusalIn(outputs: readonly Output[]) {
  for (const output of outputs) if (output.type === 'refused') return output.refusal;
  return null;
}

/**
 * Sends an event to an existing actor; resolves when it is durable. Returns the actor's refusal, or ILLEGAL_TRANSITION
 * if its state does not handle the event; with `allowNoOp` that counts as done already. `row` is the stored answer of
 * an idempotent request; it is stored unless the event was refused.
 */
export async function sendToActor(
  { actors }: Pick<Services, 'actors'>,
  ref: ActorRef,
  event: MachineEvent,
  row: (outputs: readonly Output[], after: Snapshot) => IdempotencyRow | undefined = () => undefined,
  { allowNoOp = false } = {},
): Promise<Outcome<Reply>> {
  const reply = await actors.send(ref, event, {
    idempotency: ({ outputs, snapshot }) => (refusalIn(outputs) === null ? (row(outputs, snapshot) ?? null) : null),
  });
  const refusal = refusalIn(reply.outputs);
  if (refusal !== null) return { ok: false, refusal };
  return reply.understood || allowNoOp
    ? done(reply)
    : refuse('ILLEGAL_TRANSITION', 'Not possible in the current state.');
}
