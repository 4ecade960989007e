import type { EpochMs, JsonObject } from '../domain/values.ts';

/** A device may report thousands of properties; beyond this bound no times are kept. */
const MAX_PROPERTIES = 200;

/** The state of a state report. */
export interface StateReport {
  state: JsonObject;
  /** The report replaced the whole state. */
  full: boolean;
}

/**
 * When each property of a device's state was last reported. Most devices report the same properties each time, so these
 * share one time.
 */
export class PropertyTimes {
  readonly #times = new Map<string, EpochMs>();
  /**
   * Property names of the last report, in its order. Their time is `latestAt`; their entries in `times` may be
   * outdated.
   */
  #latest: readonly string[] = [];
  #latestAt: EpochMs = 0;

  record(reported: StateReport, at: EpochMs): void {
    if (!this.#namesSameProperties(reported)) this.#merge(reported, at);
    this.#latestAt = at;
  }

  all(): ReadonlyMap<string, EpochMs> {
    for (const name of this.#latest) this.#times.set(name, this.#latestAt);
    return this.#times;
  }

  #namesSameProperties({ state, full }: StateReport): boolean {
    const latest = this.#latest;
    let matching = 0;
    for (const name in state) if (state[name] === null || latest[matching++] !== name) return false;
    return matching === latest.length && (!full || matching === this.#times.size);
  }

  /** Merge patch semantics: null removes a property. */
  #merge({ state, full }: StateReport, at: EpochMs): void {
    const times = this.#times;
    if (full) times.clear();
    else this.all();
    const latest: string[] = [];
    for (const name in state) {
      if (state[name] === null && !full) times.delete(name);
      else if (times.size < MAX_PROPERTIES || times.has(name)) {
        times.set(name, at);
        latest.push(name);
      }
    }
    this.#latest = latest;
  }
}
