/** What the runtime counts; the metrics of an edge stand behind it. */
export interface RuntimeMeter {
  turn(actors: number, events: number, milliseconds: number): void;
  storeAway(): void;
  refusedData(): void;
  quarantined(): void;
  passivated(count: number): void;
}

export const unmetered: RuntimeMeter = {
  turn() {},
  storeAway() {},
  refusedData() {},
  quarantined() {},
  passivated() {},
};
