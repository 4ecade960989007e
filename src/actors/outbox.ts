import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { Uuid } from '../domain/values.ts';
import type { ActorMessage, ActorRef, DurableOutput, ResolvableOutput } from '../machines/outputs.ts';
import type { OutboxKey, OutboxRow, Store } from '../store/contract.ts';
import { collectRejections } from './collect-rejections.ts';
import {
  ActorExists,
  type AddressedEvent,
  type BatchView,
  EventFailed,
  NoSuchActor,
  NotOwner,
  type OutputResolver,
  Quarantined,
  type SyncOutputResolver,
} from './contract.ts';
import { toMachineEvent } from './envelope.ts';
import { addressOf } from './live-actor.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { RuntimeLimits } from './runtime-limits.ts';
import type { Supervisor } from './supervisor.ts';

const SWEEP_BATCH = 1_000;
const SWEEP_RETRY_MS = 1_000;

/** The resolvers of one output type; called only with outputs of that type. */
interface RegisteredResolver {
  resolve(output: never): Promise<AddressedEvent | null>;
  resolveSync: ((output: never, batch: BatchView) => AddressedEvent | null) | undefined;
}

/**
 * Transactional outbox: delivers durable outputs immediately after their commit, and again by a sweep after a crash.
 * Delivery is at least once; the receiving machine ignores duplicates by its state. A row is deleted in the commit of
 * the transition that it causes, or with the batch if it causes none.
 */
export class Outbox {
  readonly #inFlight = new Map<string, number>();
  readonly #resolvers = new Map<ResolvableOutput['type'], RegisteredResolver>();
  /** Rows delivered since the current sweep began to read; its result may still contain them. */
  readonly #deliveredDuringSweep = new Set<string>();
  #periodic: NodeJS.Timeout | null = null;
  #sweepTimer: NodeJS.Timeout | null = null;
  /** Due time of `sweepTimer`, in monotonic milliseconds. */
  #nextSweepAt = 0;
  #sweeping: Promise<void> | null = null;
  #stopped = false;

  readonly #supervisor: Supervisor;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #limits: RuntimeLimits;
  readonly #log: Log;
  readonly #shards: ShardOwnership;

  constructor(parts: {
    supervisor: Supervisor;
    store: Store;
    clock: Clock;
    limits: RuntimeLimits;
    log: Log;
    shards: ShardOwnership;
  }) {
    this.#supervisor = parts.supervisor;
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#limits = parts.limits;
    this.#log = parts.log;
    this.#shards = parts.shards;
  }

  /** Registers the resolver of an output type, before the start; outputs without a resolver wait in the outbox. */
  registerResolver<T extends ResolvableOutput['type']>(
    type: T,
    resolve: OutputResolver<T>,
    resolveSync?: SyncOutputResolver<T>,
  ): void {
    this.#resolvers.set(type, { resolve, resolveSync });
  }

  /** Resolves an output from memory; null if that is not possible. */
  resolveSync(output: ResolvableOutput, batch: BatchView): AddressedEvent | null {
    return this.#resolvers.get(output.type)?.resolveSync?.(output as never, batch) ?? null;
  }

  /** Resolves when every target has committed; rejects if a delivery has to be retried. */
  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    const rejected = await collectRejections(rows, (row) => this.#deliverRow(row));
    // The new owner of the shard delivers the others.
    const failed = rejected.filter(({ reason }) => !(reason instanceof NotOwner));
    const [first] = failed;
    if (first === undefined) return;
    const from = addressOf(first.item.from);
    this.#log.warn({ err: first.reason, from, outputs: failed.length }, 'outbox delivery failed; retrying');
    // Releasing a quarantined actor starts a sweep immediately.
    const allQuarantined = failed.every(({ reason }) => reason instanceof Quarantined);
    this.#scheduleSweep(allQuarantined ? this.#limits.quarantineRetryMs : SWEEP_RETRY_MS);
    throw first.reason;
  }

  /** Delivers rows left by a crash, an unknown commit outcome or a failed delivery; queued behind a running sweep. */
  sweep(): Promise<void> {
    if (this.#sweeping) this.#scheduleSweep();
    this.#sweeping ??= this.#sweepAll().finally(() => {
      this.#sweeping = null;
      this.#deliveredDuringSweep.clear();
    });
    return this.#sweeping;
  }

  /** As `sweep`, with a reading that begins now. */
  async sweepAgain(): Promise<void> {
    while (this.#sweeping !== null) await this.#sweeping;
    await this.sweep();
  }

  /** Starts the periodic sweep: a process that lost the active lock may commit rows after this one has started. */
  start(): void {
    this.#periodic = setInterval(() => {
      // A scheduled sweep has its own delay, which is longer for quarantined targets.
      if (this.#sweepTimer === null && this.#sweeping === null) void this.sweep();
    }, this.#limits.sweepMs).unref();
  }

  stop(): void {
    this.#stopped = true;
    if (this.#periodic) clearInterval(this.#periodic);
    if (this.#sweepTimer) clearTimeout(this.#sweepTimer);
    this.#sweepTimer = null;
  }

  sizes(): CollectionSizes {
    return { outbox_under_way: this.#inFlight.size, outbox_ended: this.#deliveredDuringSweep.size };
  }

  /** Milliseconds for which this process has been delivering the oldest undelivered output. */
  age(): number {
    const oldest = Math.min(...this.#inFlight.values());
    return Number.isFinite(oldest) ? Math.max(0, this.#clock.now() - oldest) : 0;
  }

  /** Reads page by page, so that undeliverable rows do not block later ones. */
  async #sweepAll(): Promise<void> {
    try {
      for (let after = 0, more = true; more; ) {
        this.#deliveredDuringSweep.clear();
        const rows = await this.#store.actors.pendingOutbox(SWEEP_BATCH, after, this.#shards.list);
        const notInFlight = rows.filter(
          (row) => !this.#inFlight.has(keyOf(row)) && !this.#deliveredDuringSweep.has(keyOf(row)),
        );
        // Rows of a batch that is not released yet: the release delivers them, and a resolver would consider them
        // obsolete.
        const due = notInFlight.filter((row) => !this.#supervisor.isVersionPending(row.from, row.version));
        if (due.length < notInFlight.length) this.#scheduleSweep();
        await this.deliver(due).catch(() => {});
        after = rows.at(-1)?.seq ?? after;
        more = rows.length === SWEEP_BATCH;
      }
    } catch (error) {
      this.#log.warn({ err: error }, 'outbox sweep failed; retrying');
      this.#scheduleSweep();
    }
  }

  #scheduleSweep(ms = SWEEP_RETRY_MS): void {
    if (this.#stopped) return;
    const at = performance.now() + ms;
    if (this.#sweepTimer) {
      if (this.#nextSweepAt <= at) return;
      clearTimeout(this.#sweepTimer);
    }
    this.#nextSweepAt = at;
    this.#sweepTimer = setTimeout(() => {
      this.#sweepTimer = null;
      void this.sweep();
    }, ms);
    this.#sweepTimer.unref();
  }

  /** Delivers a row, unless its delivery is in progress. */
  async #deliverRow(row: OutboxRow): Promise<void> {
    const key = keyOf(row);
    if (this.#inFlight.has(key)) return;
    this.#inFlight.set(key, this.#clock.now());
    try {
      await this.#deliverOutput(row.output, row);
      if (this.#sweeping) this.#deliveredDuringSweep.add(key);
    } finally {
      this.#inFlight.delete(key);
    }
  }

  async #deliverOutput(output: DurableOutput, row: OutboxRow): Promise<void> {
    switch (output.type) {
      case 'actor.tell':
        return this.#sendTo(output.to, output.event, row);
      case 'commands.tell':
        return this.#sendToAll(
          'command',
          await this.#store.commands.open(output.deviceId, output.revokedAt),
          output.event,
          row,
        );
      case 'plans.tell':
        return this.#sendToAll('plan', await this.#store.plans.open(output.tenantId), output.event, row);
      case 'plan.ask':
      case 'plan.unheard':
        return this.#resolveAndSend(output, row);
      default:
        // Written by another build.
        throw new Error(`unknown output type '${(output satisfies never as DurableOutput).type}'`);
    }
  }

  async #resolveAndSend(output: ResolvableOutput, row: OutboxRow): Promise<void> {
    const resolver = this.#resolvers.get(output.type);
    if (resolver === undefined) throw new Error(`no resolver is registered for outputs of type '${output.type}'`);
    const addressed = await resolver.resolve(output as never);
    return addressed === null ? this.#markDelivered(row) : this.#sendResolved(addressed, row);
  }

  async #sendToAll(kind: ActorRef['kind'], ids: readonly Uuid[], event: ActorMessage, row: OutboxRow): Promise<void> {
    await Promise.all(ids.map((id) => this.#sendTo({ kind, id }, event, null)));
    await this.#markDelivered(row);
  }

  /** Resolves when the event is committed together with the deletion of its row. */
  async #sendResolved({ to, event, create, fallback }: AddressedEvent, row: OutboxRow): Promise<void> {
    try {
      if (create) await this.#supervisor.createWith(to, event, { outboxKey: row });
      else await this.#supervisor.sendWith(to, event, { outboxKey: row });
    } catch (error) {
      const isObsolete = error instanceof ActorExists || error instanceof NoSuchActor;
      if (!isObsolete && !(error instanceof EventFailed)) throw error;
      // An actor that is being created may still fail to commit.
      if (error instanceof ActorExists && (await this.#supervisor.read(to)) === null) throw error;
      if (!isObsolete && fallback) await this.#sendResolved(fallback, row);
      else await this.#markDelivered(row);
    }
  }

  /** Resolves also if the target does not exist, or fails on the event, which is then logged and dropped. */
  async #sendTo(to: ActorRef, event: ActorMessage, row: OutboxRow | null): Promise<void> {
    try {
      const message = toMachineEvent(event, this.#clock.now());
      await this.#supervisor.sendWith(to, message, row ? { outboxKey: row } : { noTimeout: true });
    } catch (error) {
      if (error instanceof NoSuchActor && row) await this.#markDelivered(row);
      else if (!(error instanceof NoSuchActor || error instanceof EventFailed)) throw error;
    }
  }

  async #markDelivered(row: OutboxKey): Promise<void> {
    await this.#store.actors.commit([], { delivered: [row] });
  }
}

const keyOf = (row: OutboxKey): string => `${addressOf(row.from)}:${row.version}:${row.n}`;
