import type { Clock } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { Sizes } from '../domain/sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { ActorRef, DurableOutput, OutsideOutput, TellEvent } from '../machines/outputs.ts';
import type { OutboxKey, OutboxRow, Store } from '../store/contract.ts';
import {
  ActorExists,
  type AtHand,
  EventFailed,
  NoSuchActor,
  type Posted,
  Quarantined,
  type Resolver,
  type TurnView,
} from './contract.ts';
import { addressOf } from './entity.ts';
import type { Limits } from './limits.ts';
import type { Supervisor } from './supervisor.ts';
import { messageOf } from './tell.ts';

const SWEEP_BATCH = 1_000;
const SWEEP_AGAIN_MS = 1_000;

/** Each of the outputs that it is registered for, and of no other. */
interface Knowing {
  resolver(output: never): Promise<Posted | null>;
  atHand: ((output: never, turn: TurnView) => Posted | null) | undefined;
}

/**
 * Delivers durable outputs: at once in process, and again after a crash. At least once; the receiving machine guards by
 * its state. A row is deleted in the commit of the transition that answers it.
 */
export class Outbox {
  private readonly underWay = new Map<string, number>();
  private readonly knowing = new Map<OutsideOutput['type'], Knowing>();
  /** Ended since a sweep began to read: what it read may name them still. */
  private readonly ended = new Set<string>();
  private periodic: NodeJS.Timeout | null = null;
  private again: NodeJS.Timeout | null = null;
  /** When it comes, on the process' own clock. */
  private againAt = 0;
  private sweeping: Promise<void> | null = null;
  private stopped = false;

  private readonly supervisor: Supervisor;
  private readonly store: Store;
  private readonly clock: Clock;
  private readonly limits: Limits;
  private readonly log: Log;

  constructor(parts: { supervisor: Supervisor; store: Store; clock: Clock; limits: Limits; log: Log }) {
    this.supervisor = parts.supervisor;
    this.store = parts.store;
    this.clock = parts.clock;
    this.limits = parts.limits;
    this.log = parts.log;
  }

  /** Who knows what this kind of output comes to. Registered before the start; until then such outputs wait. */
  resolve<T extends OutsideOutput['type']>(type: T, resolver: Resolver<T>, atHand?: AtHand<T>): void {
    this.knowing.set(type, { resolver, atHand });
  }

  /** What an output comes to, where memory tells. */
  atHand(output: OutsideOutput, turn: TurnView): Posted | null {
    return this.knowing.get(output.type)?.atHand?.(output as never, turn) ?? null;
  }

  /** Resolves when every target has committed what it was told; rejects where one has to be told later. */
  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    const tries = await Promise.allSettled(rows.map((row) => this.one(row)));
    const failed = tries.flatMap((one, index) =>
      one.status === 'rejected' ? [{ row: rows[index], why: one.reason }] : [],
    );
    const [first] = failed;
    if (first === undefined) return;
    const from = addressOf((first.row as OutboxRow).from);
    this.log.warn({ err: first.why, from, outputs: failed.length }, 'an output is delivered later');
    // A release looks at once.
    const isApart = failed.every(({ why }) => why instanceof Quarantined);
    this.later(isApart ? this.limits.quarantinedAgainMs : SWEEP_AGAIN_MS);
    throw first.why;
  }

  /** Delivers what a crash, an unknown commit or a refusal left behind. One that is under way may have passed it by. */
  sweep(): Promise<void> {
    if (this.sweeping) this.later();
    this.sweeping ??= this.sweepAll().finally(() => {
      this.sweeping = null;
      this.ended.clear();
    });
    return this.sweeping;
  }

  /** Sweeps every `sweepMs` too: a process that lost its right to write may have left rows after this one has started. */
  start(): void {
    this.periodic = setInterval(() => {
      // A sweep that is planned comes with its own delay, which quarantined targets make longer.
      if (this.again === null && this.sweeping === null) void this.sweep();
    }, this.limits.sweepMs).unref();
  }

  stop(): void {
    this.stopped = true;
    if (this.periodic) clearInterval(this.periodic);
    if (this.again) clearTimeout(this.again);
    this.again = null;
  }

  sizes(): Sizes {
    return { outbox_under_way: this.underWay.size, outbox_ended: this.ended.size };
  }

  /** Milliseconds the oldest undelivered output has been under way in this process. */
  age(): number {
    const oldest = Math.min(...this.underWay.values());
    return Number.isFinite(oldest) ? Math.max(0, this.clock.now() - oldest) : 0;
  }

  /** Page by page: what cannot be delivered, however much it is, keeps nothing that was written later from its turn. */
  private async sweepAll(): Promise<void> {
    try {
      for (let after = 0, more = true; more; ) {
        this.ended.clear();
        const rows = await this.store.actors.pendingOutbox(SWEEP_BATCH, after);
        const fresh = rows.filter((row) => !this.underWay.has(keyOf(row)) && !this.ended.has(keyOf(row)));
        // What memory does not know of yet its release delivers, and a resolver would take it for long over.
        const due = fresh.filter((row) => !this.supervisor.isBefore(row.from, row.version));
        if (due.length < fresh.length) this.later();
        await this.deliver(due).catch(() => {});
        after = rows.at(-1)?.seq ?? after;
        more = rows.length === SWEEP_BATCH;
      }
    } catch (error) {
      this.log.warn({ err: error }, 'the outbox waits for the store');
      this.later();
    }
  }

  private later(ms = SWEEP_AGAIN_MS): void {
    if (this.stopped) return;
    const at = performance.now() + ms;
    if (this.again) {
      if (this.againAt <= at) return;
      clearTimeout(this.again);
    }
    this.againAt = at;
    this.again = setTimeout(() => {
      this.again = null;
      void this.sweep();
    }, ms);
    this.again.unref();
  }

  /** Where it is under way already it is nobody's second concern. */
  private async one(row: OutboxRow): Promise<void> {
    const key = keyOf(row);
    if (this.underWay.has(key)) return;
    this.underWay.set(key, this.clock.now());
    try {
      await this.hand(row.output, row);
      if (this.sweeping) this.ended.add(key);
    } finally {
      this.underWay.delete(key);
    }
  }

  private async hand(output: DurableOutput, row: OutboxRow): Promise<void> {
    switch (output.type) {
      case 'actor.tell':
        return this.tell(output.to, output.event, row);
      case 'commands.tell':
        return this.tellAll(
          'command',
          await this.store.commands.open(output.deviceId, output.revokedAt),
          output.event,
          row,
        );
      case 'plans.tell':
        return this.tellAll('plan', await this.store.plans.open(output.tenantId), output.event, row);
      default: {
        const knowing = this.knowing.get(output.type);
        if (knowing === undefined) throw new Error(`nobody knows yet what '${output.type}' comes to`);
        const posted = await knowing.resolver(output as never);
        return posted === null ? this.delivered(row) : this.post(posted, row);
      }
    }
  }

  private async tellAll(kind: ActorRef['kind'], ids: readonly Uuid[], event: TellEvent, row: OutboxRow): Promise<void> {
    await Promise.all(ids.map((id) => this.tell({ kind, id }, event, null)));
    await this.delivered(row);
  }

  /** Resolves when it is committed together with the end of its row. */
  private async post({ to, event, create, otherwise }: Posted, row: OutboxRow): Promise<void> {
    try {
      if (create) await this.supervisor.make(to, event, { delivers: row });
      else await this.supervisor.deliver(to, event, { delivers: row });
    } catch (error) {
      const isOver = error instanceof ActorExists || error instanceof NoSuchActor;
      if (!isOver && !(error instanceof EventFailed)) throw error;
      // One that is only being made may not come to be after all.
      if (error instanceof ActorExists && (await this.supervisor.read(to)) === null) throw error;
      if (!isOver && otherwise) await this.post(otherwise, row);
      else await this.delivered(row);
    }
  }

  /** Resolves also where there is nobody to tell; what the target's machine fails on is recorded there and dropped. */
  private async tell(to: ActorRef, event: TellEvent, row: OutboxRow | null): Promise<void> {
    try {
      const message = messageOf(event, this.clock.now());
      await this.supervisor.deliver(to, message, row ? { delivers: row } : { patient: true });
    } catch (error) {
      if (error instanceof NoSuchActor && row) await this.delivered(row);
      else if (!(error instanceof NoSuchActor || error instanceof EventFailed)) throw error;
    }
  }

  private async delivered(row: OutboxKey): Promise<void> {
    await this.store.actors.commit({ actors: [], delivered: [row] });
  }
}

const keyOf = (row: OutboxKey): string => `${addressOf(row.from)}:${row.version}:${row.n}`;
