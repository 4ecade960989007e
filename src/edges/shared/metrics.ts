import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { RuntimeMeter } from '../../actors/runtime-meter.ts';

/** What the service counts, in Prometheus' text form. Labels come from closed lists: never an id, never a path. */
export interface Metrics {
  /** The media type of `text`. */
  contentType: string;
  render(): Promise<string>;
  /** An HTTP answer by the pattern of its route. */
  recordRequest(route: string, method: string, status: number, milliseconds: number): void;
  /** A command that reached this status; `code` is why it was refused or failed a check, `none` where nothing was wrong. */
  recordCommand(status: string, code: string): void;
  runtime: RuntimeMeter;
  /** A counter of one label, for an edge's own meter: `mqtt_refusals`, by `code`. */
  labelledCounter(name: string, help: string, label: string): (value: string) => void;
  /** Read when somebody looks. */
  gauge(name: string, help: string, read: () => number): void;
  /** The same by the values of one label. */
  labelledGauge(name: string, help: string, label: string, read: () => Readonly<Record<string, number>>): void;
}

const PREFIX = 'twinkeep_';
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000];

export function makeMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  // Gauges that are named like counters, which Prometheus' own check refuses; the same numbers stand by type beside them.
  for (const name of ['resources', 'handles', 'requests']) registry.removeSingleMetric(`nodejs_active_${name}_total`);

  /** Counts in a plain map, since counting is far more frequent than looking. */
  function tallies<Label extends string>(name: string, help: string, labelNames: readonly Label[]) {
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
      const counted = counts.get(key);
      if (counted === undefined) counts.set(key, { labels: labels(), count: 1 });
      else counted.count++;
    };
  }
  const tally: Metrics['labelledCounter'] = (name, help, label) => {
    const add = tallies(name, help, [label]);
    return (value) => add(value, () => ({ [label]: value }));
  };
  const count = (name: string, help: string) => {
    const counter = new Counter({ name: `${PREFIX}${name}_total`, help, registers: [registry] });
    return (by = 1) => counter.inc(by);
  };
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: PREFIX + name, help, buckets, registers: [registry] });

  const requests = tallies('http_requests', 'HTTP answers', ['route', 'method', 'status']);
  const took = new Histogram({
    name: `${PREFIX}http_request_duration_seconds`,
    help: 'From the request line to the end of the answer',
    labelNames: ['route', 'method'],
    buckets: SECONDS,
    registers: [registry],
  });
  const commands = tallies('commands', 'Commands by the status they reached, and why', ['status', 'code']);
  const turnActors = histogram('turn_actors', 'Actors that one turn committed', SIZES);
  const turnEvents = histogram('turn_events', 'Events that one turn decided', SIZES);
  const turnTook = histogram('turn_duration_seconds', 'From decide to release', SECONDS);
  const storeAway = count('store_away', 'Turns that found the store away');
  const conflicts = count('version_conflicts', 'Actors that another writer had changed when their turn was committed');
  const refusedData = count('data_refused', 'Rows that the store refused for their data');
  const quarantined = count('actors_quarantined', 'Actors that were quarantined');
  const passivated = count('actors_passivated', 'Idle actors that left memory');

  return {
    contentType: registry.contentType,
    render: () => registry.metrics(),
    recordRequest(route, method, status, milliseconds) {
      requests(`${method} ${status} ${route}`, () => ({ route, method, status: `${status}` }));
      took.observe({ route, method }, milliseconds / 1000);
    },
    recordCommand: (status, code) => commands(`${status} ${code}`, () => ({ status, code })),
    runtime: {
      batchCommitted(actors, events, milliseconds) {
        turnActors.observe(actors);
        turnEvents.observe(events);
        turnTook.observe(milliseconds / 1000);
      },
      storeUnavailable: () => storeAway(),
      versionConflict: () => conflicts(),
      dataRefused: () => refusedData(),
      quarantined: () => quarantined(),
      passivated: (many) => passivated(many),
    },
    labelledCounter: tally,
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
