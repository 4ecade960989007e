import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { RuntimeMeter } from '../../actors/contract.ts';

const PREFIX = 'twinkeep_';
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

/** Counts one occurrence of a label set, which `key` identifies. */
type LabelledCounts<Label extends string> = (key: string, labels: () => Record<Label, string>) => void;

/** Prometheus metrics of the service. Label values come from closed lists: never an id, never a path. */
export class Metrics {
  readonly runtime: RuntimeMeter;
  readonly #registry = new Registry();
  readonly #requests: LabelledCounts<'route' | 'method' | 'status'>;
  readonly #requestDuration: Histogram<'route' | 'method'>;
  readonly #commands: LabelledCounts<'status' | 'code'>;

  /** Registers the metrics in the order in which they are rendered. */
  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    // These gauges are named like counters, which promtool rejects; the same numbers exist by type under other names.
    for (const name of ['resources', 'handles', 'requests']) {
      this.#registry.removeSingleMetric(`nodejs_active_${name}_total`);
    }
    this.#requests = this.#labelledCounts('http_requests', 'HTTP responses', ['route', 'method', 'status']);
    this.#requestDuration = new Histogram({
      name: `${PREFIX}http_request_duration_seconds`,
      help: 'Time from the request line to the end of the response',
      labelNames: ['route', 'method'],
      buckets: SECONDS,
      registers: [this.#registry],
    });
    const commandsHelp = 'Commands, by status reached and refusal code';
    this.#commands = this.#labelledCounts('commands', commandsHelp, ['status', 'code']);
    this.runtime = this.#runtimeMeter();
  }

  /** The media type of the rendered metrics. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }

  /** Counts an HTTP response by its route pattern. */
  readonly recordRequest = (route: string, method: string, status: number, milliseconds: number): void => {
    this.#requests(`${method} ${status} ${route}`, () => ({ route, method, status: `${status}` }));
    this.#requestDuration.observe({ route, method }, milliseconds / 1000);
  };

  /** Counts a command that reached a status; `code` is the reason of a refusal or failed check, otherwise `none`. */
  recordCommand(status: string, code: string): void {
    this.#commands(`${status} ${code}`, () => ({ status, code }));
  }

  /** A counter with one label, for an edge's meter: `mqtt_refusals`, by `code`. */
  labelledCounter(name: string, help: string, label: string): (value: string) => void {
    const add = this.#labelledCounts(name, help, [label]);
    return (value) => add(value, () => ({ [label]: value }));
  }

  /** A gauge whose value is read when the metrics are rendered. */
  gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name: PREFIX + name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(read());
      },
    });
  }

  /** A counter whose value is read when the metrics are rendered. */
  counter(name: string, help: string, read: () => number): void {
    new Counter({
      name: `${PREFIX}${name}_total`,
      help,
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** A counter with one label: values by label value, read when the metrics are rendered. */
  labelledTotals(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void {
    new Counter({
      name: `${PREFIX}${name}_total`,
      help,
      labelNames: [label],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
      },
    });
  }

  /** A gauge with one label: values by label value, read when the metrics are rendered. */
  labelledGauge(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void {
    new Gauge({
      name: PREFIX + name,
      help,
      labelNames: [label],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const [value, count] of Object.entries(read())) this.set({ [label]: value }, count);
      },
    });
  }

  #runtimeMeter(): RuntimeMeter {
    const actors = this.#histogram('turn_actors', 'Actors per committed batch', SIZES);
    const events = this.#histogram('turn_events', 'Events per committed batch', SIZES);
    const duration = this.#histogram(
      'turn_duration_seconds',
      'Time from the decision of a batch to the release of its actors',
      SECONDS,
    );
    const storeUnavailable = this.#counter('store_away', 'Batches that failed because the store was unavailable');
    const conflicts = this.#counter(
      'version_conflicts',
      'Actors that another writer changed before their batch was committed',
    );
    const dataRefused = this.#counter('data_refused', 'Rows that the store rejected because of their data');
    const quarantined = this.#counter('actors_quarantined', 'Actors quarantined after repeated failures');
    const passivated = this.#counter('actors_passivated', 'Idle actors removed from memory');
    return {
      batchCommitted(actorCount, eventCount, milliseconds) {
        actors.observe(actorCount);
        events.observe(eventCount);
        duration.observe(milliseconds / 1000);
      },
      storeUnavailable: () => storeUnavailable.inc(),
      versionConflict: () => conflicts.inc(),
      dataRefused: () => dataRefused.inc(),
      quarantined: () => quarantined.inc(),
      passivated: (count) => passivated.inc(count),
    };
  }

  /** Counts in a plain map: counting is far more frequent than rendering. */
  #labelledCounts<Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
  ): LabelledCounts<Label> {
    const counts = new Map<string, { labels: Record<Label, string>; count: number }>();
    new Counter({
      name: `${PREFIX}${name}_total`,
      help,
      labelNames: [...labelNames],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { labels, count } of counts.values()) this.inc(labels, count);
      },
    });
    return (key, labels) => {
      const entry = counts.get(key);
      if (entry === undefined) counts.set(key, { labels: labels(), count: 1 });
      else entry.count++;
    };
  }

  #counter(name: string, help: string): Counter {
    return new Counter({ name: `${PREFIX}${name}_total`, help, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name: PREFIX + name, help, buckets, registers: [this.#registry] });
  }
}
