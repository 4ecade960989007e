import { done, type Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandEvent } from '../../machines/command-types.ts';
import { commandRefusal } from '../key-reach.ts';
import type { Call, Services } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { findCommand } from './command-view.ts';

/** Cancels a command that is not written yet, or refuses one that waits for its confirmation. */
export async function endCommand(
  services: Pick<Services, 'actors' | 'clock'>,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  { type, id, reason }: { type: 'cancel' | 'refuse'; id: Uuid; reason: string | undefined },
): Promise<Outcome<{ body: { status: 'cancelled'; command_id: Uuid } }>> {
  const found = await findCommand(services, caller, id);
  if (!found.ok) return found;
  const restricted = commandRefusal(caller, found.value.snapshot.context.fixed);
  if (restricted !== null) return restricted;
  const event: CommandEvent = {
    ...{ type, at: services.clock.now(), by: caller.principal },
    ...(reason !== undefined && { reason }),
  };
  const answer = { body: { status: 'cancelled' as const, command_id: id } };
  const reply = await sendToActor(services, found.value.ref, event, () => idempotent?.toRow(answer));
  return reply.ok ? done(answer) : reply;
}
