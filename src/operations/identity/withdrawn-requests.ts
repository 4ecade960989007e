import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { CommandEvent, CommandFixed } from '../../machines/command-types.ts';
import type { Page, Position, StoredActor } from '../../store/contract.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';

const PAGE = 200;
const REASON = 'The user who requested it is no longer a member of the tenant.';

/**
 * Ends what a former member requested and what waits for a confirmation: commands, dry runs and change requests. If that
 * fails, their confirmation is refused (`requesterRefusal`).
 */
export async function withdrawRequests(
  services: Pick<Services, 'actors' | 'clock' | 'log' | 'store'>,
  caller: Caller,
  userId: Uuid,
): Promise<void> {
  const { clock, log } = services;
  const now = clock.now();
  try {
    for (const dryRuns of [false, true]) await withdrawCommands(services, caller, userId, { now, dryRuns });
    await withdrawChanges(services, caller, userId, now);
  } catch (err) {
    log.warn({ err, user: userId }, 'members: requests of a removed member not withdrawn; they cannot be confirmed');
  }
}

async function withdrawCommands(
  services: Pick<Services, 'actors' | 'store'>,
  caller: Caller,
  userId: Uuid,
  filter: { now: EpochMs; dryRuns: boolean },
): Promise<void> {
  const list = (after?: Position) =>
    services.store.commands.awaitingConfirmation(tenantOf(caller), filter, PAGE, after);
  for await (const { ref, context } of entriesOf<StoredActor>(list)) {
    const { requestedBy } = context as unknown as CommandFixed;
    if (requestedBy.id !== userId) continue;
    const event: CommandEvent = { type: 'cancel', at: filter.now, by: caller.principal, reason: REASON };
    // Refused if it has been decided since.
    await sendToActor(services, ref, event);
  }
}

async function withdrawChanges(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  userId: Uuid,
  now: EpochMs,
): Promise<void> {
  const { requestId: _, operation: __, ...decidedBy } = caller.principal;
  const list = (after?: Position) => store.changeRequests.list(tenantOf(caller), { waitingAt: now }, PAGE, after);
  for await (const { id, requestedBy } of entriesOf(list)) {
    if (requestedBy.id !== userId) continue;
    await store.changeRequests.end(id, { status: 'refused', decidedBy, decidedAt: now, reason: REASON });
  }
}

async function* entriesOf<Entry>(list: (after?: Position) => Promise<Page<Entry>>): AsyncGenerator<Entry> {
  for (let after: Position | undefined; ; ) {
    const page: Page<Entry> = await list(after);
    yield* page.items;
    if (page.next === null) return;
    after = page.next;
  }
}
