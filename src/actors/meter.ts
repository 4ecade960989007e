/** What the runtime counts; the metrics of an edge stand behind it. */
export interface RuntimeMeter {
  turn(actors: number, events: number, milliseconds: number): void;
  storeAway(): void;
  /** A row's version was not the one that was decided on, and this process did not write it. */
  conflict(): void;
  refusedData(): void;
  quarantined(): void;
  passivated(count: number): void;
}

export const unmetered: RuntimeMeter = {
  turn() {},
  storeAway() {},
  conflict() {},
  refusedData() {},
  quarantined() {},
  passivated() {},
};
