import type { Clock } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { ActorRef, TellEvent } from '../machines/outputs.ts';
import type { OutboxKey, OutboxRow, Store } from '../store/contract.ts';
import { EventFailed, NoSuchActor } from './contract.ts';
import { addressOf } from './entity.ts';
import type { Supervisor } from './supervisor.ts';
import { messageOf } from './tell.ts';

const SWEEP_BATCH = 1_000;

/**
 * Delivers durable outputs: at once in process, and again after a crash. At least once; the receiving machine guards by
 * its state. A row is deleted in the commit of the transition that answers it.
 */
export class Outbox {
  private readonly underWay = new Map<string, number>();
  private again: NodeJS.Timeout | null = null;
  private sweeping: Promise<void> | null = null;

  private readonly supervisor: Supervisor;
  private readonly store: Store;
  private readonly clock: Clock;
  private readonly log: Log;

  constructor(parts: { supervisor: Supervisor; store: Store; clock: Clock; log: Log }) {
    this.supervisor = parts.supervisor;
    this.store = parts.store;
    this.clock = parts.clock;
    this.log = parts.log;
  }

  /** Resolves when every target has committed what it was told; rejects where one has to be told later. */
  async deliver(rows: readonly OutboxRow[]): Promise<void> {
    const tries = await Promise.allSettled(rows.map((row) => this.one(row)));
    const failed = tries.find((one) => one.status === 'rejected');
    if (failed) throw failed.reason;
  }

  /** Delivers what a crash, an unknown commit or a refusal left behind. */
  sweep(): Promise<void> {
    this.sweeping ??= this.sweepAll().finally(() => {
      this.sweeping = null;
    });
    return this.sweeping;
  }

  stop(): void {
    if (this.again) clearTimeout(this.again);
    this.again = null;
  }

  /** Milliseconds the oldest undelivered output has been under way in this process. */
  age(): number {
    const oldest = Math.min(...this.underWay.values());
    return Number.isFinite(oldest) ? Math.max(0, this.clock.now() - oldest) : 0;
  }

  private async sweepAll(): Promise<void> {
    const tried = new Set<string>();
    try {
      for (;;) {
        const rows = await this.store.actors.pendingOutbox(SWEEP_BATCH);
        const fresh = rows.filter((row) => !this.underWay.has(keyOf(row)) && !tried.has(keyOf(row)));
        for (const row of fresh) tried.add(keyOf(row));
        await this.deliver(fresh).catch(() => {});
        if (rows.length < SWEEP_BATCH || fresh.length === 0) return;
      }
    } catch (error) {
      this.log.warn({ err: error }, 'the outbox waits for the store');
      this.later();
    }
  }

  private later(): void {
    if (this.again) return;
    this.again = setTimeout(() => {
      this.again = null;
      void this.sweep();
    }, 1_000);
    this.again.unref();
  }

  /** Where it is under way already it is nobody's second concern. */
  private async one(row: OutboxRow): Promise<void> {
    const key = keyOf(row);
    if (this.underWay.has(key)) return;
    this.underWay.set(key, this.clock.now());
    try {
      const { output } = row;
      if (output.type === 'actor.tell') await this.tell(output.to, output.event, row);
      else {
        const ids = await this.store.commands.open(output.deviceId);
        await Promise.all(ids.map((id) => this.tell({ kind: 'command', id }, output.event, null)));
        await this.delivered(row);
      }
    } catch (error) {
      this.log.warn({ err: error, from: addressOf(row.from) }, 'an output is delivered later');
      this.later();
      throw error;
    } finally {
      this.underWay.delete(key);
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
