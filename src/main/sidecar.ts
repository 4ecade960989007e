import type { Config } from '../config.ts';
import { backoffDelay } from '../domain/backoff.ts';
import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { SidecarEdge, SidecarMeter } from '../edges/grpc/edge.ts';
import { defaultSidecarLimits, type SidecarLimits } from '../edges/grpc/sidecar-limits.ts';
import type { Metrics } from '../edges/shared/metrics.ts';
import type { Cognition } from '../operations/cognition/contract.ts';
import type { Services } from '../operations/operation.ts';
import { noSidecar, type Sidecar } from '../services/sidecar.ts';
import { type ChildParts, SidecarChild } from './sidecar-child.ts';

/** Runs the configured sidecar: starts it if it is embedded, and connects to it. */
export interface SidecarRunner extends SizeReporter {
  /** The sidecar interface for operations; not connected before `open`. */
  sidecar: Sidecar;
  open(cognition: Cognition, services: SidecarServices): void;
  close(): Promise<void>;
  abort(): void;
}

type SidecarServices = Pick<Services, 'actors' | 'manifests'>;

type Child = Pick<SidecarChild, 'address' | 'token' | 'stop' | 'abort'>;

interface Parts {
  clock: Clock;
  lease: Lease;
  log: Log;
  metrics: Pick<Metrics, 'gauge' | 'labelledCounter'>;
  limits?: Partial<SidecarLimits> | undefined;
  /** Starts the embedded sidecar; replaced in tests. */
  startChild?: (parts: ChildParts) => Child;
  /** Loads the modules of gRPC; replaced in tests. */
  loadEdge?: () => Promise<Pick<typeof import('../edges/grpc/edge.ts'), 'openSidecarEdge'>>;
}

const none: SidecarRunner = { sidecar: noSidecar, sizes: () => ({}), open() {}, async close() {}, abort() {} };

export const makeSidecarRunner = (config: Config, parts: Parts): SidecarRunner =>
  config.sidecar.mode === 'off' ? none : new ConfiguredSidecar(config, parts);

/**
 * Starts and connects the sidecar in a pass of the event loop after the service has become ready, because both take
 * processor time that the start of the service needs. The modules of gRPC are loaded when there is a sidecar to connect
 * to: an embedded one takes half a second to listen.
 */
class ConfiguredSidecar implements SidecarRunner {
  readonly sidecar: Sidecar = {
    connected: () => this.#edge?.connected() ?? false,
    notify: (change) => this.#edge?.notify(change),
  };
  readonly #config: Config;
  readonly #parts: Parts;
  readonly #meter: SidecarMeter;
  #child: Child | null = null;
  #edge: SidecarEdge | null = null;
  #starting: NodeJS.Immediate | undefined;
  #loading = false;
  #failedLoads = 0;
  #loadTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(config: Config, parts: Parts) {
    this.#config = config;
    this.#parts = parts;
    this.#meter = makeSidecarMeter(parts.metrics, this.sidecar);
  }

  sizes(): CollectionSizes {
    return this.#edge?.sizes() ?? {};
  }

  open(cognition: Cognition, services: SidecarServices): void {
    this.#starting = setImmediate(() => this.#start(() => void this.#connect(cognition, services)));
  }

  async close(): Promise<void> {
    this.#stopConnecting();
    await this.#child?.stop();
  }

  abort(): void {
    this.#stopConnecting();
    this.#child?.abort();
  }

  /** `connect` is called whenever there may be a sidecar to connect to. */
  #start(connect: () => void): void {
    // Ended before it was opened.
    if (this.#closed) return;
    const {
      sidecar: { mode, address },
      llm,
      log: { level },
    } = this.#config;
    const { log, startChild = (parts) => new SidecarChild(parts) } = this.#parts;
    if (mode === 'external') connect();
    else this.#child = startChild({ listen: address, llm, log, level, onListening: connect });
  }

  /** Connects, or ends the back-off pause. */
  async #connect(cognition: Cognition, services: SidecarServices): Promise<void> {
    if (this.#edge !== null) return this.#edge.retryNow();
    if (this.#loading || this.#closed) return;
    this.#loading = true;
    const { log, limits, loadEdge = () => import('../edges/grpc/edge.ts') } = this.#parts;
    try {
      const { openSidecarEdge } = await loadEdge();
      if (!this.#closed) this.#edge = openSidecarEdge(this.#edgeParts(cognition, services));
    } catch (error) {
      // A process that has no free file descriptor may have one later.
      this.#failedLoads += 1;
      log.error({ err: error }, 'sidecar client not loaded; retrying');
      const { backoff } = { ...defaultSidecarLimits, ...limits };
      const retry = () => void this.#connect(cognition, services);
      if (!this.#closed) this.#loadTimer = setTimeout(retry, backoffDelay(this.#failedLoads, backoff)).unref();
    } finally {
      this.#loading = false;
    }
  }

  #edgeParts(cognition: Cognition, services: SidecarServices) {
    const { clock, lease, log, limits } = this.#parts;
    const { mode, address } = this.#config.sidecar;
    return {
      address: () => (mode === 'embedded' ? (this.#child?.address() ?? null) : address),
      token: () => this.#child?.token() ?? null,
      ...{ cognition, services, clock, lease, log, meter: this.#meter },
      ...(limits && { limits }),
    };
  }

  #stopConnecting(): void {
    this.#closed = true;
    clearImmediate(this.#starting);
    clearTimeout(this.#loadTimer);
    this.#edge?.close();
  }
}

function makeSidecarMeter(metrics: Parts['metrics'], sidecar: Sidecar): SidecarMeter {
  metrics.gauge('sidecar_connected', '1 while a sidecar is connected', () => Number(sidecar.connected()));
  return {
    eventSent: metrics.labelledCounter('sidecar_events', 'Events sent to a sidecar', 'kind'),
    proposalReceived: metrics.labelledCounter('sidecar_proposals', 'Proposals received from a sidecar', 'kind'),
    proposalRefused: metrics.labelledCounter('sidecar_proposals_refused', 'Refused proposals of a sidecar', 'code'),
    streamChanged: metrics.labelledCounter(
      'sidecar_streams',
      'Sidecar streams that started, ended or overflowed',
      'what',
    ),
  };
}
