import type { Clock } from '../domain/clock.ts';
import type { Log } from '../domain/log.ts';
import type { ActorStore } from '../store/contract.ts';
import { EventFailed, Quarantined, type RuntimeMeter } from './contract.ts';
import type { Envelope } from './envelope.ts';
import { addressOf, type LiveActor } from './live-actor.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** Time in which failed events of an actor count together. */
const WINDOW_MS = 60_000;
/** Delay before a timer whose event failed fires again. */
const TIMER_RETRY_MS = 3_600_000;

interface Parts {
  store: ActorStore;
  clock: Clock;
  limits: RuntimeLimits;
  log: Log;
  meter: RuntimeMeter;
}

/**
 * Handles events on which the machine threw or whose data the store rejected: rejects the sender, postpones the timer,
 * deletes the outbox row, and quarantines an actor after `failuresToQuarantine` of them within a minute.
 */
export class EventFailureHandler {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  handle(actor: LiveActor, envelope: Envelope, error: Error): void {
    const { store, clock, limits, log } = this.#parts;
    log.error({ actor: addressOf(actor.ref), event: envelope.event.type, err: error }, 'event failed');
    envelope.reject(
      error instanceof EventFailed ? error : new EventFailed('the machine failed on the event', { cause: error }),
    );
    if (envelope.firedTimer) this.#postponeTimer(actor, envelope.firedTimer);
    // A creating event: the outbox deletes its row, or sends the fallback.
    if (actor.version === 0) return;
    if (envelope.outboxKey) {
      store.commit([], { delivered: [envelope.outboxKey] }).catch((reason) => {
        log.warn({ err: reason }, 'outbox row of a failed event not deleted; the next sweep delivers it again');
      });
    }
    const now = clock.now();
    actor.recentFailures = (actor.recentFailures ?? []).filter((at) => now - at < WINDOW_MS);
    actor.recentFailures.push(now);
    if (actor.recentFailures.length >= limits.failuresToQuarantine) this.#quarantine(actor, error.message);
  }

  #quarantine(actor: LiveActor, reason: string): void {
    const { store, log, meter } = this.#parts;
    actor.quarantine = reason;
    meter.quarantined();
    log.error({ actor: addressOf(actor.ref), reason }, 'actor quarantined');
    const envelopes = actor.mailbox;
    actor.mailbox = [];
    for (const envelope of envelopes) envelope.reject(new Quarantined(reason));
    store.quarantine(actor.ref, reason).catch((error) => {
      log.warn({ err: error, actor: addressOf(actor.ref) }, 'actor quarantine not stored');
    });
  }

  /** Keeps the timer of a failed event: without it an open command would never time out. */
  #postponeTimer({ ref }: LiveActor, id: string): void {
    const { store, clock, log } = this.#parts;
    const now = clock.now();
    store.postponeTimer({ ref, id }, now, now + TIMER_RETRY_MS).catch((error) => {
      log.warn({ err: error }, 'timer of a failed event not postponed; it fires again immediately');
    });
  }
}
