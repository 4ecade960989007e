/** What the runtime counts; the metrics of an edge stand behind it. */
export interface RuntimeMeter {
  batchCommitted(actors: number, events: number, milliseconds: number): void;
  storeUnavailable(): void;
  /** A row's version was not the one that was decided on, and this process did not write it. */
  versionConflict(): void;
  dataRefused(): void;
  quarantined(): void;
  passivated(count: number): void;
}

export const unmetered: RuntimeMeter = {
  batchCommitted() {},
  storeUnavailable() {},
  versionConflict() {},
  dataRefused() {},
  quarantined() {},
  passivated() {},
};
