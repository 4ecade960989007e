import type { ActorKind } from '../../../src/machines/outputs.ts';
import { actorKey, type JournalRow, type MemoryDatabase, type Tables } from '../../support/memory-store/database.ts';
import type { SimulatedTenant } from '../workload/simulated-tenant.ts';
import type { World } from '../world/world.ts';

/** The journal entries of a request with an `Idempotency-Key`. */
interface Effect {
  kind: ActorKind;
  event: string;
  /** If the requested state already holds, the response is a success without a change. */
  mayFindItDone?: true;
}

/** By operation. The other operations of the workload leave no journal entry. */
const journaled = new Map<string, Effect>(
  Object.entries({
    registerTenant: { kind: 'tenant', event: 'register' },
    updatePolicy: { kind: 'tenant', event: 'policy.set' },
    suspendTenant: { kind: 'tenant', event: 'suspend', mayFindItDone: true },
    resumeTenant: { kind: 'tenant', event: 'resume', mayFindItDone: true },
    registerDevice: { kind: 'device', event: 'register' },
    rotateSecret: { kind: 'device', event: 'rotate' },
    revokeDevice: { kind: 'device', event: 'revoke' },
    importHistory: { kind: 'device', event: 'history.import' },
    reinstateDevice: { kind: 'device', event: 'reinstate' },
    commandDevice: { kind: 'command', event: 'request' },
    confirmCommand: { kind: 'command', event: 'confirm' },
    approveConfirmation: { kind: 'command', event: 'confirm' },
    createPlan: { kind: 'plan', event: 'create' },
    cancelPlan: { kind: 'plan', event: 'cancel', mayFindItDone: true },
  }),
);

/** Each request took effect at most once, and exactly once if it was answered with success. */
export function checkEffects(service: SimulatedTenant): void {
  const { world, ledger, cluster } = service;
  const effects = journaledEffects(service);
  for (const [key, { operation, answer }] of ledger.requests) {
    const made = effects.get(key) ?? [];
    if (made.length > 1) {
      world.fail('idempotency-key-applies-once', `key ${key} of ${operation} made ${made.join(' and ')}`);
    }
    const effect = isOnlyPreview(operation, answer) ? undefined : journaled.get(operation);
    if (answer === null || effect === undefined || effect.mayFindItDone || made.length > 0) continue;
    world.fail(
      'acknowledged-requests-are-stored',
      `key ${key} of ${operation} was answered with success and had no effect`,
    );
  }
  for (const { id } of service.devices) checkKeys(service, id);
  for (const [flag, state] of ledger.flagsAnswered) {
    if (cluster.database.tables.flags.get(flag) === state) continue;
    world.fail('acknowledged-requests-are-stored', `${flag} was answered as ${state} and is stored otherwise`);
  }
}

/** The answer shows what a confirmation would do; a command that has to be confirmed is stored all the same. */
const isOnlyPreview = (operation: string, answer: string | null): boolean =>
  operation !== 'commandDevice' && answer !== null && JSON.parse(answer)?.status === 'dry_run_required';

/** The journal entries that requests caused, by their keys. */
function journaledEffects({ world, ledger, cluster }: SimulatedTenant): Map<string, string[]> {
  const byTry = new Map<string, string>();
  for (const [key, { tries }] of ledger.requests) for (const id of tries) byTry.set(id, key);
  const { actors, journal } = cluster.database.tables;
  const effects = new Map<string, string[]>();
  for (const [actor, entries] of journal) {
    // A command that the gateway refused is stored without effect.
    if (actors.get(actor)?.columns.status === 'rejected') continue;
    for (const { by, event, version } of entries) {
      const effect = journaled.get(by.operation ?? '');
      if (effect?.event !== event || !actor.startsWith(`${effect.kind}:`)) continue;
      const key = byTry.get(by.requestId ?? '');
      const made = `${event} of ${actor} (version ${version})`;
      if (key === undefined) world.fail('idempotency-key-applies-once', `${made} came of no request`);
      else effects.set(key, [...(effects.get(key) ?? []), made]);
    }
  }
  return effects;
}

const issuing: ReadonlySet<string> = new Set(['register', 'rotate', 'reinstate']);

/** The keys of a device match its journal, and each response with a key belongs to a different one. */
function checkKeys({ world, ledger, cluster }: SimulatedTenant, deviceId: string): void {
  const { deviceKeys, journal } = cluster.database.tables;
  const entries = journal.get(actorKey({ kind: 'device', id: deviceId })) ?? [];
  const issued = entries.filter(({ event }) => issuing.has(event)).map(keyVersionOf);
  const stored = (deviceKeys.get(deviceId) ?? []).map(({ keyVersion }) => keyVersion);
  const expected = issued.map((_, n) => n + 1).join();
  if (issued.join() !== expected || stored.join() !== expected) {
    const detail = `keys ${stored.join()} are stored and keys ${issued.join()} were issued`;
    world.fail('idempotency-key-applies-once', `device ${deviceId}: ${detail}`);
  }
  const shown = new Set<number>();
  for (const [key, { operation, answer }] of ledger.requests) {
    if (answer === null || (operation !== 'rotateSecret' && operation !== 'reinstateDevice')) continue;
    const { device_id, key_version } = JSON.parse(answer) as { device_id: string; key_version: number };
    if (device_id !== deviceId) continue;
    if (shown.has(key_version) || !issued.includes(key_version)) {
      world.fail(
        'idempotency-key-applies-once',
        `key ${key} of ${operation} was answered with key ${key_version} of ${deviceId}`,
      );
    }
    shown.add(key_version);
  }
}

const keyVersionOf = ({ data }: JournalRow): number => Number(data?.key_version);

/** Operations whose effects are rows without a journal: each is stored with the response of its request. */
const unjournaled: ReadonlySet<string> = new Set(['/setFlag', '/createRelease', '/releaseFirmware', '/approveChange']);

/** Counts the stored effects of requests on flags and firmware releases. */
export class RowEffects {
  readonly #world: World;
  readonly #tables: Tables;
  /** By `Idempotency-Key`. */
  readonly #made = new Map<string, string>();

  constructor(world: World, { tables }: MemoryDatabase) {
    this.#world = world;
    this.#tables = tables;
    this.check();
  }

  /** Called after each writing statement. */
  check(): void {
    const { flags, firmware, idempotency } = this.#tables;
    const answers = [...idempotency.takeChanged()].flatMap((key) => idempotency.get(key) ?? []);
    const [answer] = answers.filter(({ path, state }) => unjournaled.has(path) && state === 'done');
    for (const name of flags.takeChanged()) this.#add(`flag ${name}`, answer);
    for (const id of firmware.takeChanged()) this.#add(`release ${id}`, answer);
  }

  #add(what: string, answer: { key: string; path: string } | undefined): void {
    if (answer === undefined) {
      this.#world.fail('idempotency-key-applies-once', `${what} was stored without the answer of its request`);
      return;
    }
    const { key, path } = answer;
    const made = this.#made.get(key);
    if (made !== undefined)
      this.#world.fail('idempotency-key-applies-once', `key ${key} of ${path} changed ${made} and ${what}`);
    this.#made.set(key, what);
    this.#world.count('effects without a journal');
  }
}
