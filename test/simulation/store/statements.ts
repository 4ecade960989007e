import { CommitUnknown, DataRefused, StoreUnavailable } from '../../../src/store/contract.ts';
import type { StatementCall, StatementTransport } from '../../support/memory-store/session.ts';
import type { Random } from '../world/random.ts';
import type { Owner } from '../world/scheduler.ts';
import type { World } from '../world/world.ts';
import type { StoreConditions } from './store-conditions.ts';

type Break = 'before' | 'after' | null;

/** A statement in progress, with the callback to its process. */
interface Sent<T> {
  call: StatementCall;
  effect(): T;
  /** Called when the connection is lost. */
  breaks: Break;
  /** It reaches the database although its process has ended. */
  survives: boolean;
  /** It waits in the database, in an open transaction. */
  waits: boolean;
  /** The connection was lost: the statement will not take effect. */
  over: boolean;
  resolve(value: T): void;
  reject(error: unknown): void;
}

/** A process's database connections: statements take time, can be lost in transit, and can outlive the process. */
export class Statements {
  readonly #world: World;
  readonly #random: Random;
  readonly #weather: StoreConditions;
  readonly #owner: Owner;
  readonly #wrote: () => void;
  #ended = false;
  readonly #underWay = new Set<Sent<unknown>>();

  /** `wrote` is called after each writing statement. */
  constructor(parts: { world: World; random: Random; weather: StoreConditions; owner: Owner; wrote(): void }) {
    this.#world = parts.world;
    this.#random = parts.random;
    this.#weather = parts.weather;
    this.#owner = parts.owner;
    this.#wrote = parts.wrote;
  }

  /** Like `pg_terminate_backend` on every session: transactions in progress are rolled back. */
  end(): void {
    this.#ended = true;
  }

  /** The server crashed: every connection is lost. Returns the effects of the open transactions. */
  crash(): (() => unknown)[] {
    const open = [...this.#underWay].filter(({ waits }) => waits).map(({ effect }) => effect);
    for (const sent of this.#underWay) {
      sent.over = true;
      this.#world.scheduler.at(this.#transit(), () => sent.reject(faultOf(sent, 'the server crashed')), this.#owner);
    }
    this.#underWay.clear();
    return open;
  }

  readonly wire: StatementTransport = <T>(call: StatementCall, effect: () => T): Promise<T> =>
    new Promise((resolve, reject) => {
      const random = this.#random;
      const weather = this.#weather;
      const breaks = call.writes && random.chance(weather.broken) ? random.pick(['before', 'after'] as const) : null;
      const stalls = call.writes && random.chance(weather.stall);
      const sent = { call, effect, breaks, survives: random.chance(0.5), waits: false, over: false, resolve, reject };
      this.#underWay.add(sent as Sent<unknown>);
      const away = random.chance(weather.away);
      const there = this.#transit() + (stalls ? random.float(weather.stallMs) : 0);
      this.#world.scheduler.at(there, () => this.#arrive(sent, away), null);
    });

  #arrive<T>(sent: Sent<T>, away: boolean): void {
    if (sent.over) return;
    const { now } = this.#world.scheduler;
    const { blackoutUntil, writesStallUntil } = this.#weather;
    if (away || now < blackoutUntil) {
      this.#world.count('store away');
      this.#answer(sent, () => sent.reject(new StoreUnavailable('connection refused')));
    } else if (sent.call.writes && now < writesStallUntil) {
      this.#world.count('write stalled');
      sent.waits = true;
      const wait = writesStallUntil - now + this.#random.float(5);
      this.#world.scheduler.at(wait, () => this.#execute(sent), null);
    } else this.#execute(sent);
  }

  #execute<T>(sent: Sent<T>): void {
    if (sent.over) return;
    sent.waits = false;
    if (this.#owner.state === 'dead' && !sent.survives) return;
    if (this.#ended) {
      this.#break(sent, 'the session was terminated');
      return;
    }
    if (sent.breaks === 'before') {
      this.#world.count('connection lost before the effect');
      this.#break(sent, 'connection lost');
      return;
    }
    const { name } = sent.call;
    try {
      const value = sent.effect();
      if (sent.call.writes) this.#wrote();
      this.#world.note(this.#owner.name, `sql ${name}`);
      if (sent.breaks === null) {
        this.#answer(sent, () => sent.resolve(value));
        return;
      }
      this.#world.count('connection lost after the effect');
      this.#break(sent, 'connection lost');
    } catch (error) {
      this.#world.note(this.#owner.name, `sql ${name} failed: ${(error as Error).message}`);
      if (error instanceof DataRefused) this.#world.count('data refused');
      this.#answer(sent, () => sent.reject(error));
    }
  }

  #break<T>(sent: Sent<T>, why: string): void {
    this.#answer(sent, () => sent.reject(faultOf(sent, why)));
  }

  #answer<T>(sent: Sent<T>, settle: () => void): void {
    const arrive = () => {
      if (sent.over) return;
      this.#underWay.delete(sent as Sent<unknown>);
      settle();
    };
    this.#world.scheduler.at(this.#transit(), arrive, this.#owner);
  }

  #transit(): number {
    return this.#random.between(0.05, 0.05 + this.#weather.latency);
  }
}

/** The error of a statement whose connection was lost. */
const faultOf = ({ call }: Pick<Sent<unknown>, 'call'>, why: string): Error =>
  call.writes ? new CommitUnknown(why) : new StoreUnavailable(why);
