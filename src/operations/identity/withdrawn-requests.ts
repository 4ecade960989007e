import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { CommandEvent, CommandFixed } from '../../machines/command-types.ts';
import type { Page, Position, StoredActor } from '../../store/contract.ts';
import { type Caller, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';

const PAGE = 200;
const REASON = 'The user who requested it is no longer a member of the tenant.';

/**
 * Ends the former member's requests that wait for a confirmation: commands, dry runs and change requests. A request that
 * cannot be ended does not keep the others; its confirmation is refused (`requesterRefusal`).
 */
export async function withdrawRequests(
  services: Pick<Services, 'actors' | 'clock' | 'log' | 'store'>,
  caller: Caller,
  userId: Uuid,
): Promise<void> {
  const { clock, log } = services;
  const now = clock.now();
  const failures: unknown[] = [];
  const passes = [
    withdrawCommands(services, caller, userId, { now, dryRuns: false }),
    withdrawCommands(services, caller, userId, { now, dryRuns: true }),
    withdrawChanges(services, caller, userId, now),
  ];
  for (const pass of passes) {
    try {
      for await (const failed of pass) failures.push(...failed);
    } catch (err) {
      failures.push(err);
    }
  }
  if (failures.length === 0) return;
  log.warn(
    { err: failures[0], failures: failures.length, user: userId },
    'members: requests of a removed member not withdrawn; they cannot be confirmed',
  );
}

/** Yields the errors of each page. */
async function* withdrawCommands(
  services: Pick<Services, 'actors' | 'store'>,
  caller: Caller,
  userId: Uuid,
  filter: { now: EpochMs; dryRuns: boolean },
): AsyncGenerator<unknown[]> {
  const list = (after?: Position) =>
    services.store.commands.awaitingConfirmation(tenantOf(caller), filter, PAGE, after);
  // Unlike `cancel`, refused if the command has been approved since it was listed.
  const event: CommandEvent = { type: 'refuse', at: filter.now, by: caller.principal, reason: REASON };
  for await (const page of pagesOf<StoredActor>(list)) {
    const theirs = page.filter(({ context }) => (context as unknown as CommandFixed).requestedBy.id === userId);
    yield await errorsOf(theirs.map(({ ref }) => sendToActor(services, ref, event)));
  }
}

async function* withdrawChanges(
  { store }: Pick<Services, 'store'>,
  caller: Caller,
  userId: Uuid,
  now: EpochMs,
): AsyncGenerator<unknown[]> {
  const { requestId: _, operation: __, ...decidedBy } = caller.principal;
  const list = (after?: Position) => store.changeRequests.list(tenantOf(caller), { waitingAt: now }, PAGE, after);
  for await (const page of pagesOf(list)) {
    const theirs = page.filter(({ requestedBy }) => requestedBy.id === userId);
    yield await errorsOf(
      theirs.map(({ id }) =>
        store.changeRequests.end(id, { status: 'refused', decidedBy, decidedAt: now, reason: REASON }),
      ),
    );
  }
}

/** The requests of a page run together, so that they share commits. */
const errorsOf = async (requests: readonly Promise<unknown>[]): Promise<unknown[]> =>
  (await Promise.allSettled(requests)).flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));

async function* pagesOf<Entry>(list: (after?: Position) => Promise<Page<Entry>>): AsyncGenerator<readonly Entry[]> {
  for (let after: Position | undefined; ; ) {
    const page: Page<Entry> = await list(after);
    yield page.items;
    if (page.next === null) return;
    after = page.next;
  }
}
