import type { PlanStep } from '../../../src/machines/plan-types.ts';
import type { ActorRow } from '../../support/memory-store/database.ts';
import type { SimulatedTenant } from '../workload/simulated-tenant.ts';
import { checkEffects } from './effects.ts';
import { checkHistory } from './history.ts';
import { isFinal } from './statuses.ts';

const LATE_MS = 5_000;

const rows = ({ cluster }: SimulatedTenant, kind: string): ActorRow[] =>
  cluster.database.tables.actors.where(({ ref }) => ref.kind === kind);

/** Describes everything that has not ended; empty if nothing is pending. */
export function unfinished(service: SimulatedTenant): string[] {
  const { callers, devices, cluster } = service;
  const { outbox, timers } = cluster.database.tables;
  const late = timers.where(({ dueAt }) => dueAt < service.world.now() - LATE_MS);
  return [
    ...(callers.waiting > 0 ? [`${callers.waiting} requests are not answered`] : []),
    ...devices.filter(({ owed }) => owed.length > 0).map(({ id, owed }) => `device ${id} owes ${owed.length} messages`),
    ...devices
      .filter(({ openViolations }) => openViolations > 0)
      .map(({ id }) => `a connection of ${id} broke the protocol and is open`),
    ...devices.filter(({ online }) => !online).map(({ id }) => `device ${id} is not connected`),
    ...rows(service, 'command')
      .filter(
        ({ columns }) =>
          !isFinal(columns.status) || (columns.verification === 'pending' && columns.status !== 'timed_out'),
      )
      .map(({ ref, columns }) => `command ${ref.id} is ${columns.status}, verification ${columns.verification}`),
    ...rows(service, 'plan')
      .filter(({ columns }) => columns.over !== true)
      .map(
        ({ ref, context }) =>
          `plan ${ref.id}: ${JSON.stringify(stepsOf(context).map(({ id, status, ask: request }) => [id, status, request]))}`,
      ),
    ...(outbox.size > 0 ? [`${outbox.size} outputs are undelivered`] : []),
    ...late.map(({ ref, event }) => `${event} of ${ref.kind} ${ref.id} is late`),
  ];
}

const stepsOf = (context: object): PlanStep[] => (context as { steps: PlanStep[] }).steps;

/** Number of commands that can still receive a late acknowledgement, and are therefore watched. */
export const lateWords = (service: SimulatedTenant): number =>
  rows(service, 'command').filter(({ columns }) => columns.status === 'timed_out' && columns.verification === 'pending')
    .length;

/** Compares what the service answered and sent with what it has stored. */
export function checkEnding(service: SimulatedTenant): void {
  checkDevices(service);
  checkHistory(service);
  checkEffects(service);
  checkCommands(service);
  checkRefusals(service);
  for (const plan of rows(service, 'plan')) checkOrder(service, plan);
  for (const row of service.cluster.database.tables.actors.values()) {
    if (row.quarantine !== null)
      service.world.fail('no-actor-is-quarantined', `${row.ref.kind} ${row.ref.id}: ${row.quarantine}`);
  }
}

/** Each device has reported once more after the faults, so its last number must have arrived. */
function checkDevices({ world, devices, cluster }: SimulatedTenant): void {
  for (const { id, counter, acknowledged, reports, forgotten } of devices) {
    const row = cluster.database.tables.actors.get(`device:${id}`);
    if (row === undefined) {
      world.fail('acknowledged-requests-are-stored', `device ${id} is gone`);
      continue;
    }
    const { state, stateVersion } = row.context as { state: { n?: number }; stateVersion: number };
    if (state.n !== counter || acknowledged !== counter) {
      const detail = `${id}: sent ${counter}, acknowledged ${acknowledged}, stored ${state.n}`;
      world.fail('acknowledged-reports-are-stored', detail);
    }
    if (stateVersion > reports || stateVersion < reports - forgotten) {
      world.fail('reports-are-applied-once', `${id}: ${reports} reports, state version ${stateVersion}`);
    }
  }
}

/** No transition has the request id of a refused attempt. */
function checkRefusals({ world, ledger, cluster }: SimulatedTenant): void {
  const { actors, journal } = cluster.database.tables;
  for (const [actor, entries] of journal) {
    // A command that the gateway refused is stored.
    if (actors.get(actor)?.columns.status === 'rejected') continue;
    for (const { by, event } of entries) {
      const code = ledger.refused.get(by.requestId ?? '');
      if (code !== undefined)
        world.fail('flags-and-rate-limits-are-enforced', `${event} of ${actor} came of a request refused with ${code}`);
    }
  }
}

function checkCommands(service: SimulatedTenant): void {
  const { world, ledger, cluster, confirmBy } = service;
  const { actors } = cluster.database.tables;
  for (const [id, deviceId] of ledger.commands) {
    const row = actors.get(`command:${id}`);
    if (row === undefined)
      world.fail('acknowledged-requests-are-stored', `command ${id} of ${deviceId} was answered 202`);
  }
  for (const id of ledger.plans) {
    if (!actors.has(`plan:${id}`)) world.fail('acknowledged-requests-are-stored', `plan ${id} was answered 202`);
  }
  for (const { ref, columns, context } of rows(service, 'command')) {
    world.count(`command ${columns.status}`);
    const { delivery, confirmedBy, requestedBy } = context as {
      delivery: { writes: number } | null;
      confirmedBy: { id: string } | null;
      requestedBy: { id: string };
    };
    if (columns.critical !== true || delivery === null || delivery.writes === 0) continue;
    const allowed = confirmedBy !== null && (confirmBy === 'requester' || confirmedBy.id !== requestedBy.id);
    if (!allowed)
      world.fail('critical-commands-need-confirmation', `command ${ref.id} was confirmed by ${confirmedBy?.id}`);
  }
}

/** Completed steps are compensated in reverse order. */
function checkOrder({ world, cluster }: SimulatedTenant, { ref, columns, context }: ActorRow): void {
  world.count(`plan ${columns.status}`);
  const undone = stepsOf(context)
    .filter(({ undo }) => undo !== null)
    .map((step) => ({ step, row: cluster.database.tables.actors.get(`command:${step.undo?.commandId}`) }))
    .map(({ step, row }) => ({ finished: step.finished ?? 0, at: Number(row?.context.requestedAt ?? 0), id: step.id }))
    .filter(({ at }) => at > 0)
    .sort((a, b) => a.at - b.at);
  for (const [n, { finished, at, id }] of undone.entries()) {
    const before = undone[n - 1];
    if (before !== undefined && before.at < at && before.finished < finished) {
      world.fail('compensation-runs-in-reverse', `plan ${ref.id}: ${before.id} was undone before ${id}`);
    }
  }
}
