import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { NodeState } from '#proto/cognition/v1/runtime_pb.js';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceContext, DeviceEvent } from '../../machines/device-types.ts';
import type { Cognition, ContextChange } from '../../operations/cognition/contract.ts';
import type { Services } from '../../operations/operation.ts';
import type { Sidecar } from '../../services/sidecar.ts';
import type { CallHandle } from './call.ts';
import { Dialler, type StreamHandler } from './dialler.ts';
import { EventSender, type OutgoingEvent } from './event-sender.ts';
import { interruptReasons, nodeStateByStatus } from './perception.ts';
import { ProposalReceiver } from './proposal-receiver.ts';
import { defaultSidecarLimits, type SidecarLimits } from './sidecar-limits.ts';

/** Counters of the sidecar edge. All labels come from closed lists. */
export interface SidecarMeter {
  /** An event was written. */
  eventSent(kind: string): void;
  proposalReceived(kind: string): void;
  proposalRefused(code: string): void;
  /**
   * `taken`: the sidecar accepted a stream. `lost`: it closed. `flooded`: the event queue overflowed because the
   * sidecar reads too slowly.
   */
  streamChanged(what: 'taken' | 'lost' | 'flooded'): void;
}

export interface SidecarParts {
  /** `host:port`; null while the address is unknown. */
  address(): string | null;
  /** The token that the sidecar requires; null if it requires none. */
  token?(): string | null;
  cognition: Cognition;
  services: {
    actors: Pick<Services['actors'], 'subscribe' | 'subscribeTransitions' | 'peek'>;
    manifests: Pick<Services['manifests'], 'load'>;
  };
  clock: Clock;
  /** Lease of the active process. Without it nothing is sent and no proposal is executed. */
  lease: Pick<Lease, 'valid'>;
  log: Log;
  meter: SidecarMeter;
  limits?: Partial<SidecarLimits>;
}

/**
 * The gRPC edge to the cognitive sidecar: the interface of the operations (`Sidecar`), and what `main` controls.
 */
export interface SidecarEdge extends Sidecar, SizeReporter {
  /** Ends the back-off pause and dials. */
  retryNow(): void;
  close(): void;
}

/** Connects, and reconnects until `close()`. */
export function openSidecarEdge(parts: SidecarParts): SidecarEdge {
  const limits = { ...defaultSidecarLimits, ...parts.limits };
  let stream: SidecarStream | null = null;
  const dialler = new Dialler({
    address: parts.address,
    token: () => parts.token?.() ?? null,
    limits,
    lease: parts.lease,
    log: parts.log,
    onConnectionChange: (connected) => parts.meter.streamChanged(connected ? 'taken' : 'lost'),
    handleStream(call) {
      const opened = new SidecarStream(call, parts, limits, () => {
        if (stream === opened) stream = null;
      });
      stream = opened;
      return opened;
    },
  });
  return {
    connected: () => dialler.connected(),
    sizes: () => stream?.sizes() ?? {},
    notify: (change) => stream?.forwardContextChange(change),
    retryNow: () => dialler.retryNow(),
    close: () => dialler.close(),
  };
}

/** One stream: sends events to the sidecar, executes the proposals that it returns. */
class SidecarStream implements StreamHandler {
  readonly #parts: SidecarParts;
  readonly #sender: EventSender;
  readonly #receiver: ProposalReceiver;
  readonly #unsubscribers: readonly (() => void)[];
  readonly #onClosed: () => void;

  constructor(call: CallHandle, parts: SidecarParts, limits: SidecarLimits, onClosed: () => void) {
    const { cognition, clock, lease, log, meter } = parts;
    this.#parts = parts;
    this.#onClosed = onClosed;
    this.#sender = new EventSender({
      ...{ call, cognition, clock, limits, log },
      onSent: meter.eventSent,
      onOverflow() {
        meter.streamChanged('flooded');
        call.cancel('the sidecar reads too slowly');
      },
    });
    this.#receiver = new ProposalReceiver({
      ...{ call, cognition, clock, lease, limits, log },
      send: (event) => this.#sender.send(event),
      onContextEnded: (contextId) => this.#sender.closeContext(contextId),
      onReceived: meter.proposalReceived,
      onRefused: meter.proposalRefused,
    });
    this.#unsubscribers = this.#subscribeToActors();
    this.#sender.run().catch((error: unknown) => {
      log.error({ err: error }, 'sidecar stream failed');
      call.cancel('internal error of the service');
    });
  }

  sizes(): CollectionSizes {
    return { ...this.#sender.sizes(), ...this.#receiver.sizes() };
  }

  onProposal: StreamHandler['onProposal'] = (proposal, bytes) => this.#receiver.receive(proposal, bytes);

  onClose(): void {
    for (const unsubscribe of this.#unsubscribers) unsubscribe();
    this.#sender.stop();
    this.#onClosed();
  }

  forwardContextChange(change: ContextChange): void {
    switch (change.type) {
      case 'opened':
        this.#sender.openContext(change.contextId);
        return;
      case 'interrupted':
        this.#sender.closeContext(change.contextId);
        this.#sender.send(interruptEventOf(change));
        return;
      case 'node':
        this.#sender.send(this.#nodeUpdateOf(change));
        return;
      case 'outcome':
        this.#sender.send(() => this.#outcomeEventOf(change));
        return;
      default:
        change satisfies never;
    }
  }

  #nodeUpdateOf(change: Extract<ContextChange, { type: 'node' }>): OutgoingEvent {
    const { contextId, nodeId, from, to, commandId, error, at } = change;
    const proposed = from === null && this.#sender.scheduler.isProposalOnly(contextId);
    const state = proposed ? NodeState.PROPOSED : nodeStateByStatus[to];
    return {
      case: 'graphStateUpdate',
      value: {
        ...{ contextId, nodeId, to: state, at: timestampFromMs(at), commandId: commandId ?? '' },
        ...(from !== null && { from: nodeStateByStatus[from] }),
        ...(error && { code: error.code, detail: error.detail }),
        proposalId: from === null ? this.#receiver.takeProposalId(contextId, nodeId) : '',
      },
    };
  }

  async #outcomeEventOf(
    change: Extract<ContextChange, { type: 'outcome' }>,
  ): Promise<Exclude<OutgoingEvent, () => unknown>> {
    const { contextId, nodeId, commandId, compensation, success, status, verification, code } = change;
    // The outcome is sent even if the state cannot be read: the next perception update has the state too.
    const deviceState = await this.#parts.cognition.stateOf(change.tenantId, change.deviceId).catch(() => null);
    const value = { contextId, nodeId, commandId, compensation, success, status, verification, code: code ?? '' };
    return { case: 'observationOutcome', value: { ...value, ...(deviceState && { deviceState }) } };
  }

  /** Subscribed per stream, so that device reports cost nothing while no sidecar is connected. */
  #subscribeToActors(): (() => void)[] {
    const { actors } = this.#parts.services;
    const { scheduler } = this.#sender;
    const markChanged = ({ tenantId, deviceId }: { tenantId: Uuid; deviceId: Uuid }) => {
      const device = actors.peek<DeviceContext>({ kind: 'device', id: deviceId })?.snapshot.context;
      if (scheduler.markDeviceChanged(tenantId, deviceId, device?.fixed.homeId ?? null)) this.#sender.notify();
    };
    return [
      actors.subscribe('device.state', markChanged),
      actors.subscribe('device.presence', markChanged),
      actors.subscribeTransitions(({ ref, snapshot }, event) => {
        if (ref.kind !== 'device') return;
        // Undefined for a timer.
        const changed: PerceptionChange | undefined = perceptionChanges[event.type as DeviceEvent['type']];
        if (changed === undefined || changed === 'nothing') return;
        const device = snapshot.context as DeviceContext;
        markChanged({ tenantId: device.fixed.tenantId, deviceId: device.fixed.id });
        if (changed === 'placement') this.#markTenantChanged(device);
        if (changed === 'manifest') this.#syncManifest(device);
      }),
    ];
  }

  /** The device's previous home is unknown here, so every scope of the tenant is marked as changed. */
  #markTenantChanged({ fixed: { tenantId } }: DeviceContext): void {
    this.#sender.scheduler.markTenantChanged(tenantId);
    this.#sender.notify();
  }

  #syncManifest({ fixed: { id, manifestVersion } }: DeviceContext): void {
    const { services, log } = this.#parts;
    services.manifests
      .load([{ id, manifestVersion }])
      .then((found) => {
        const manifest = found.get(id);
        if (manifest !== undefined) this.#sender.enqueueManifest(manifest);
      })
      .catch((error: unknown) => log.warn({ err: error }, 'sidecar manifest update dropped'));
  }
}

/** What an event changes of what a sidecar sees of a device. `placement`: the device may have left its home. */
type PerceptionChange = 'nothing' | 'device' | 'placement' | 'manifest';

/** Reported states and presence have outputs. */
const perceptionChanges: Readonly<Record<DeviceEvent['type'], PerceptionChange>> = {
  register: 'device',
  patch: 'placement',
  rotate: 'nothing',
  revoke: 'placement',
  reinstate: 'device',
  delete: 'placement',
  'manifest.register': 'manifest',
  'manifest.update': 'manifest',
  'history.import': 'nothing',
  'presence.lost': 'nothing',
  'heartbeat.received': 'nothing',
  'hello.received': 'nothing',
  'state.reported': 'nothing',
  'ack.reported': 'nothing',
  'message.rejected': 'nothing',
};

const interruptEventOf = ({
  contextId,
  reason,
  detail,
}: Extract<ContextChange, { type: 'interrupted' }>): OutgoingEvent => ({
  case: 'interruptSignal',
  value: { contextId, reason: interruptReasons[reason], detail },
});
