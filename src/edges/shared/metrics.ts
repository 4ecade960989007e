import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { RuntimeMeter } from '../../actors/runtime-meter.ts';

/** Prometheus metrics of the service. Label values come from closed lists: never an id, never a path. */
export interface Metrics {
  /** The media type of the rendered metrics. */
  contentType: string;
  render(): Promise<string>;
  /** Counts an HTTP response by its route pattern. */
  recordRequest(route: string, method: string, status: number, milliseconds: number): void;
  /** Counts a command that reached a status; `code` is the reason of a refusal or failed check, otherwise `none`. */
  recordCommand(status: string, code: string): void;
  runtime: RuntimeMeter;
  /** A counter with one label, for an edge's meter: `mqtt_refusals`, by `code`. */
  labelledCounter(name: string, help: string, label: string): (value: string) => void;
  /** A gauge whose value is read when the metrics are rendered. */
  gauge(name: string, help: string, read: () => number): void;
  /** The same with one label: values by label value. */
  labelledGauge(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void;
}

const PREFIX = 'twinkeep_';
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

export function makeMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // These gauges are named like counters, which promtool rejects; the same numbers exist by type under other names.
  for (const name of ['resources', 'handles', 'requests']) registry.removeSingleMetric(`nodejs_active_${name}_total`);

  /** Counts in a plain map: counting is far more frequent than rendering. */
  function labelledCounts<Label extends string>(name: string, help: string, labelNames: readonly Label[]) {
    const counts = new Map<string, { labels: Record<Label, string>; count: number }>();
    new Counter({
      name: `${PREFIX}${name}_total`,
      help,
      labelNames: [...labelNames],
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, count } of counts.values()) this.inc(labels, count);
      },
    });
    return (key: string, labels: () => Record<Label, string>): void => {
      const entry = counts.get(key);
      if (entry === undefined) counts.set(key, { labels: labels(), count: 1 });
      else entry.count++;
    };
  }
  const labelledCounter: Metrics['labelledCounter'] = (name, help, label) => {
    const add = labelledCounts(name, help, [label]);
    return (value) => add(value, () => ({ [label]: value }));
  };
  const count = (name: string, help: string) => {
    const counter = new Counter({ name: `${PREFIX}${name}_total`, help, registers: [registry] });
    return (by = 1) => counter.inc(by);
  };
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: PREFIX + name, help, buckets, registers: [registry] });

  const requests = labelledCounts('http_requests', 'HTTP responses', ['route', 'method', 'status']);
  const requestDuration = new Histogram({
    name: `${PREFIX}http_request_duration_seconds`,
    help: 'Time from the request line to the end of the response',
    labelNames: ['route', 'method'],
    buckets: SECONDS,
    registers: [registry],
  });
  const commands = labelledCounts('commands', 'Commands, by status reached and refusal code', ['status', 'code']);
  const batchActors = histogram('turn_actors', 'Actors per committed batch', SIZES);
  const batchEvents = histogram('turn_events', 'Events per committed batch', SIZES);
  const batchDuration = histogram(
    'turn_duration_seconds',
    'Time from the decision of a batch to the release of its actors',
    SECONDS,
  );
  const storeUnavailable = count('store_away', 'Batches that failed because the store was unavailable');
  const conflicts = count('version_conflicts', 'Actors that another writer changed before their batch was committed');
  const dataRefused = count('data_refused', 'Rows that the store rejected because of their data');
  const quarantined = count('actors_quarantined', 'Actors quarantined after repeated failures');
  const passivated = count('actors_passivated', 'Idle actors removed from memory');

  return {
    contentType: registry.contentType,
    render: () => registry.metrics(),
    recordRequest(route, method, status, milliseconds) {
      requests(`${method} ${status} ${route}`, () => ({ route, method, status: `${status}` }));
      requestDuration.observe({ route, method }, milliseconds / 1000);
    },
    recordCommand: (status, code) => commands(`${status} ${code}`, () => ({ status, code })),
    runtime: {
      batchCommitted(actors, events, milliseconds) {
        batchActors.observe(actors);
        batchEvents.observe(events);
        batchDuration.observe(milliseconds / 1000);
      },
      storeUnavailable: () => storeUnavailable(),
      versionConflict: () => conflicts(),
      dataRefused: () => dataRefused(),
      quarantined: () => quarantined(),
      passivated: (many) => passivated(many),
    },
    labelledCounter,
    gauge(name, help, read) {
      new Gauge({
        name: PREFIX + name,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    },
    labelledGauge(name, help, label, read) {
      new Gauge({
        name: PREFIX + name,
        help,
        labelNames: [label],
        registers: [registry],
        collect() {
          this.reset();
          for (const [value, count] of Object.entries(read())) this.set({ [label]: value }, count);
        },
      });
    },
  };
}
