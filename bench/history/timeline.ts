import { DAY_MS } from '../../src/domain/day.ts';
import { SYSTEM } from '../../src/domain/values.ts';
import { initialCommand } from '../../src/machines/command-types.ts';
import type { Caller, Services } from '../../src/operations/operation.ts';
import { timelineKinds } from '../../src/operations/timeline/timeline-entry.ts';
import { readTimeline } from '../../src/operations/timeline/timeline-page.ts';
import type { ActorCommit, Store } from '../../src/store/contract.ts';
import { commandCommit, deviceCommit, newId } from '../../test/support/actor-commits.ts';

// A home with many commands, of which some waited for a confirmation, and pages of its timeline.

const DEVICES = 20;
const DAYS = 30;
const PAGE = 50;
/** Every so many commands are critical: they were confirmed a minute later. */
const CRITICAL_EACH = 20;
const CONFIRMED_MS = 60_000;
const BATCH = 500;

const lifecycle = (status: string): { lifecycle: string; verification: string } => ({
  lifecycle: status,
  verification: 'idle',
});

/** A command that succeeded, with a context and a journal of usual size. */
function commandAt(tenantId: string, deviceId: string, at: number, isCritical: boolean): ActorCommit {
  const id = newId();
  const by = { kind: 'user' as const, id: newId() };
  const entry = (version: number, time: number, event: string, from: string | null, to: string) => ({
    ...{ version, at: time, by, event, from: from === null ? null : lifecycle(from), to: lifecycle(to), data: null },
  });
  const [asked, confirmed] = [entry(1, at, 'request', null, 'awaiting_confirmation'), at + CONFIRMED_MS];
  return commandCommit({
    ...{ id, tenantId, version: 4, value: { lifecycle: 'succeeded', verification: 'verified' } },
    fixed: {
      ...(initialCommand.fixed as object),
      ...{ id, tenantId, deviceId, action: 'set_brightness', params: { brightness: 40, transition_ms: 500 } },
      ...{ messageId: newId(), origin: { requestId: newId(), plan: null }, requestedBy: by, requestedAt: at },
      ...{ safetyClass: isCritical ? 'CRITICAL' : 'NORMAL', manifestVersion: 3, confirmedBy: isCritical ? by : null },
    },
    live: {
      ...(initialCommand.live as object),
      status: 'succeeded',
      delivery: { dispatchedAt: at, expiresAt: at + 30_000, firstWrittenAt: at + 5, sessionId: newId(), writes: 1 },
    },
    columns: { device_id: deviceId, created_at: at, status: 'succeeded', critical: isCritical, written: true },
    journal: [
      isCritical ? asked : entry(1, at, 'request', null, 'dispatched'),
      ...(isCritical ? [entry(2, confirmed, 'confirm', 'awaiting_confirmation', 'dispatched')] : []),
      entry(3, at + CONFIRMED_MS + 20, 'ack', 'dispatched', 'acknowledged'),
      entry(4, at + CONFIRMED_MS + 40, 'ack', 'acknowledged', 'succeeded'),
    ],
  });
}

/** Stores `count` commands of a home, and returns a function that reads a page of its timeline, and the number of its entries. */
export async function homeWithCommands(store: Store, count: number, end: number) {
  const tenantId = newId();
  const devices = Array.from({ length: DEVICES }, () => deviceCommit({ tenantId }));
  await store.actors.commit(devices);
  const deviceIds = devices.map(({ ref }) => ref.id);
  const start = end - DAYS * DAY_MS;
  const apart = (DAYS * DAY_MS) / count;
  for (let n = 0; n < count; n += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, count - n) }, (_, k) => {
      const deviceId = deviceIds[(n + k) % DEVICES] as string;
      return commandAt(tenantId, deviceId, Math.floor(start + (n + k) * apart), (n + k) % CRITICAL_EACH === 0);
    });
    await store.actors.commit(batch);
  }
  const services = { store, sessions: { connections: () => [] } as unknown as Services['sessions'] };
  const caller: Caller = {
    ...{ user: null, principal: SYSTEM, tenantId, role: 'owner', scopes: null, platformAdmin: false },
    ...{ token: null, endsAt: null, requestId: newId() },
  };
  /** Pages follow each other through the whole time, newest first, and begin again. */
  let after: Parameters<typeof readTimeline>[2]['after'];
  return async (): Promise<number> => {
    const range = { from: undefined, to: undefined, limit: PAGE, after };
    const page = await readTimeline(services, caller, { deviceIds, kinds: timelineKinds, ...range });
    after = page.next ?? undefined;
    return page.items.length;
  };
}
