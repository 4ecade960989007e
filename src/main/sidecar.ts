import type { Config } from '../config.ts';
import type { Clock } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { SidecarEdge, SidecarMeter } from '../edges/grpc/edge.ts';
import type { SidecarLimits } from '../edges/grpc/sidecar-limits.ts';
import type { Metrics } from '../edges/shared/metrics.ts';
import type { Cognition } from '../operations/cognition/contract.ts';
import type { Services } from '../operations/operation.ts';
import { noSidecar, type Sidecar } from '../services/sidecar.ts';
import { SidecarChild } from './sidecar-child.ts';

/** Runs the configured sidecar: starts it if it is embedded, and connects to it. */
export interface SidecarRunner extends SizeReporter {
  /** The sidecar interface for operations; not connected before `open`. */
  sidecar: Sidecar;
  open(cognition: Cognition, services: Pick<Services, 'actors' | 'manifests'>): void;
  close(): Promise<void>;
  abort(): void;
}

interface Parts {
  clock: Clock;
  lease: Lease;
  log: Log;
  metrics: Pick<Metrics, 'gauge' | 'labelledCounter'>;
  limits?: Partial<SidecarLimits> | undefined;
}

const none: SidecarRunner = { sidecar: noSidecar, sizes: () => ({}), open() {}, async close() {}, abort() {} };

/** Loads the modules of gRPC if there is a sidecar. */
export async function makeSidecarRunner(
  { sidecar: { mode, address }, llm, log: { level } }: Config,
  parts: Parts,
): Promise<SidecarRunner> {
  if (mode === 'off') return none;
  const { makeSidecarEdge } = await import('../edges/grpc/edge.ts');
  const { clock, lease, log, metrics, limits } = parts;
  const edge = makeSidecarEdge();
  const meter = makeSidecarMeter(metrics, edge);
  let child: SidecarChild | null = null;
  return {
    sidecar: edge,
    sizes: () => edge.sizes(),
    open(cognition, services) {
      if (mode === 'embedded') {
        child = new SidecarChild({ listen: address, llm, log, level, onListening: () => edge.retryNow() });
      }
      const currentAddress = () => (mode === 'embedded' ? (child?.address() ?? null) : address);
      edge.open({
        address: currentAddress,
        token: () => child?.token() ?? null,
        cognition,
        ...{ services, clock, lease, log, meter },
        ...(limits && { limits }),
      });
    },
    async close() {
      edge.close();
      await child?.stop();
    },
    abort() {
      edge.close();
      child?.abort();
    },
  };
}

function makeSidecarMeter(metrics: Parts['metrics'], edge: SidecarEdge): SidecarMeter {
  metrics.gauge('sidecar_connected', '1 while a sidecar is connected', () => Number(edge.connected()));
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
