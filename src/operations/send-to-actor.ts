import type { Reply } from '../actors/contract.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import type { MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorRef, Output } from '../machines/outputs.ts';
import type { IdempotencyRow } from '../store/contract.ts';
import type { Services } from './operation.ts';

/** What an actor said no to, if it did. */
export function refusalIn(outputs: readonly Output[]) {
  for (const output of outputs) if (output.type === 'refused') return output.refusal;
  return null;
}

/**
 * Sends an event to an actor that exists; resolves when it is durable. What the actor refuses is refused, and so is what
 * it does not understand in its state, unless `again`: then what has been done already is done. `row` is the stored
 * answer of an idempotent request, kept only with an event that was not refused.
 */
export async function sendToActor(
  { actors }: Pick<Services, 'actors'>,
  ref: ActorRef,
  event: MachineEvent,
  row: (outputs: readonly Output[], after: Snapshot) => IdempotencyRow | undefined = () => undefined,
  { again = false } = {},
): Promise<Outcome<Reply>> {
  const reply = await actors.send(ref, event, {
    idempotency: ({ outputs, snapshot }) => (refusalIn(outputs) === null ? (row(outputs, snapshot) ?? null) : null),
  });
  const refusal = refusalIn(reply.outputs);
  if (refusal !== null) return { ok: false, refusal };
  return reply.understood || again ? done(reply) : refuse('ILLEGAL_TRANSITION', 'That is not possible in this state.');
}
