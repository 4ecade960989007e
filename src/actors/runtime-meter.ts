/** Counters of the runtime; implemented by the metrics edge. */
export interface RuntimeMeter {
  batchCommitted(actors: number, events: number, milliseconds: number): void;
  storeUnavailable(): void;
  /** The stored version differs from the version that was decided on, because another process wrote the row. */
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
