import type { EpochMs, JsonObject } from '../domain/values.ts';

/** A device may name thousands of properties; of the others it is not known when they were reported. */
const MAX_PROPERTIES = 200;

/** What a state report named. */
export interface StateReport {
  state: JsonObject;
  /** It replaced the whole state. */
  full: boolean;
}

/** When each property of a device's state was last reported. Most devices name the same each time: those have one time in common. */
export class PropertyTimes {
  private readonly times = new Map<string, EpochMs>();
  /** What the last report named, in its order: as late as that, whatever `times` says of it. */
  private latest: readonly string[] = [];
  private latestAt: EpochMs = 0;

  record(reported: StateReport, at: EpochMs): void {
    if (!this.namesSameProperties(reported)) this.merge(reported, at);
    this.latestAt = at;
  }

  all(): ReadonlyMap<string, EpochMs> {
    for (const name of this.latest) this.times.set(name, this.latestAt);
    return this.times;
  }

  private namesSameProperties({ state, full }: StateReport): boolean {
    const { latest } = this;
    let named = 0;
    for (const name in state) if (state[name] === null || latest[named++] !== name) return false;
    return named === latest.length && (!full || named === this.times.size);
  }

  /** As a merge patch does it: null takes a property away. */
  private merge({ state, full }: StateReport, at: EpochMs): void {
    const { times } = this;
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
    this.latest = latest;
  }
}
