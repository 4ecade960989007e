import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { NodeState } from '#proto/cognition/v1/runtime_pb.js';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { Cognition, ContextChange, Sidecar } from '../../operations/cognition/contract.ts';
import type { Services } from '../../operations/operation.ts';
import type { Call } from './call.ts';
import { type Conversation, type Dialler, dial } from './dialler.ts';
import { Hearing } from './hearing.ts';
import { defaultLimits, type SidecarLimits } from './limits.ts';
import { interruptReasons, nodeStates } from './showing.ts';
import { type Event, Telling } from './telling.ts';

/** What is counted; each word comes from a closed list. */
export interface SidecarMeter {
  /** An event was written. */
  told(kind: string): void;
  /** A proposal came. */
  heard(kind: string): void;
  refused(code: string): void;
  /** A stream was `taken` or `lost`; `flooded`: too much waited for a sidecar that reads too slowly. */
  stream(what: 'taken' | 'lost' | 'flooded'): void;
}

export interface SidecarParts {
  /** `host:port`; null while it is not known. */
  address(): string | null;
  cognition: Cognition;
  services: {
    actors: Pick<Services['actors'], 'subscribe' | 'subscribeTransitions' | 'peek'>;
    manifests: Pick<Services['manifests'], 'of'>;
  };
  clock: Clock;
  /** The right to act as the active process: without it nothing is sent, and no proposal is carried out. */
  lease: Pick<Lease, 'valid'>;
  log: Log;
  meter: SidecarMeter;
  limits?: Partial<SidecarLimits>;
}

/** The cognitive sidecar as the operations see it, and what `main` starts and stops. */
export interface SidecarEdge extends Sidecar, SizeReporter {
  /** Dials until it is closed. */
  open(parts: SidecarParts): void;
  /** Dials at once, where it waits for another attempt. */
  again(): void;
  close(): void;
}

/** Nothing is dialled before it is opened: operations may know it earlier. */
export function makeSidecarEdge(): SidecarEdge {
  let dialler: Dialler | null = null;
  let stream: Stream | null = null;
  return {
    connected: () => dialler?.connected() ?? false,
    sizes: () => stream?.sizes() ?? {},
    tell: (change) => stream?.change(change),
    open(parts) {
      const limits = { ...defaultLimits, ...parts.limits };
      dialler = dial({
        address: parts.address,
        limits,
        lease: parts.lease,
        log: parts.log,
        changed: (connected) => parts.meter.stream(connected ? 'taken' : 'lost'),
        converse(call) {
          const opened = new Stream(call, parts, limits, () => {
            if (stream === opened) stream = null;
          });
          stream = opened;
          return opened;
        },
      });
    },
    again: () => dialler?.again(),
    close: () => dialler?.close(),
  };
}

/** One stream: what happens in the house is told on it, and what it says is done. */
class Stream implements Conversation {
  private readonly parts: SidecarParts;
  private readonly telling: Telling;
  private readonly hearing: Hearing;
  private readonly ears: readonly (() => void)[];
  private readonly gone: () => void;

  constructor(call: Call, parts: SidecarParts, limits: SidecarLimits, gone: () => void) {
    const { cognition, clock, lease, log, meter } = parts;
    this.parts = parts;
    this.gone = gone;
    this.telling = new Telling({
      ...{ call, cognition, clock, limits, log },
      wrote: meter.told,
      flooded() {
        meter.stream('flooded');
        call.hangUp('the sidecar reads too slowly');
      },
    });
    this.hearing = new Hearing({
      ...{ call, cognition, clock, lease, limits, log },
      say: (event) => this.telling.say(event),
      settled: (contextId) => this.telling.close(contextId),
      heard: meter.heard,
      refused: meter.refused,
    });
    this.ears = this.listen();
    this.telling.run().catch((error: unknown) => {
      log.error({ err: error }, 'a stream to the sidecar failed');
      call.hangUp('it failed on our side');
    });
  }

  sizes(): CollectionSizes {
    return { ...this.telling.sizes(), ...this.hearing.sizes() };
  }

  heard: Conversation['heard'] = (proposal, bytes) => this.hearing.hear(proposal, bytes);

  over(): void {
    for (const stop of this.ears) stop();
    this.telling.end();
    this.gone();
  }

  change(change: ContextChange): void {
    switch (change.type) {
      case 'opened':
        this.telling.open(change.contextId);
        return;
      case 'interrupted':
        this.telling.close(change.contextId);
        this.telling.say(interruption(change));
        return;
      case 'node':
        this.telling.say(this.transition(change));
        return;
      case 'outcome':
        this.telling.say(() => this.outcome(change));
    }
  }

  private transition(change: Extract<ContextChange, { type: 'node' }>): Event {
    const { contextId, nodeId, from, to, commandId, error, at } = change;
    const proposed = from === null && this.telling.attention.onlyProposes(contextId);
    const state = proposed ? NodeState.PROPOSED : nodeStates[to];
    return {
      case: 'graphStateUpdate',
      value: {
        ...{ contextId, nodeId, to: state, at: timestampFromMs(at), commandId: commandId ?? '' },
        ...(from !== null && { from: nodeStates[from] }),
        ...(error && { code: error.code, detail: error.detail }),
        proposalId: from === null ? this.hearing.proposalOf(contextId, nodeId) : '',
      },
    };
  }

  private async outcome(change: Extract<ContextChange, { type: 'outcome' }>): Promise<Exclude<Event, () => unknown>> {
    const { contextId, nodeId, commandId, compensation, success, status, verification, code } = change;
    // That it is over matters more than how the device stands, which is told with the world too.
    const deviceState = await this.parts.cognition.stateOf(change.tenantId, change.deviceId).catch(() => null);
    const value = { contextId, nodeId, commandId, compensation, success, status, verification, code: code ?? '' };
    return { case: 'observationOutcome', value: { ...value, ...(deviceState && { deviceState }) } };
  }

  /** Only while a stream stands does anything that devices report cost anything here. */
  private listen(): (() => void)[] {
    const { actors } = this.parts.services;
    const { attention } = this.telling;
    const moved = ({ tenantId, deviceId }: { tenantId: Uuid; deviceId: Uuid }) => {
      const device = actors.peek<DeviceContext>({ kind: 'device', id: deviceId })?.snapshot.context;
      if (attention.moved(tenantId, deviceId, device?.homeId ?? null)) this.telling.stir();
    };
    return [
      actors.subscribe('device.state', moved),
      actors.subscribe('device.presence', moved),
      actors.subscribeTransitions(({ ref, snapshot }, event) => {
        if (ref.kind !== 'device' || !changesDevices.has(event.type)) return;
        const device = snapshot.context as DeviceContext;
        moved({ tenantId: device.tenantId, deviceId: device.id });
        if (changesPlaces.has(event.type)) this.place(device);
        if (changesManifests.has(event.type)) this.learn(device);
      }),
    ];
  }

  /** Where it was nobody knows any more: a home that lost it did not report anything. */
  private place({ tenantId }: DeviceContext): void {
    this.telling.attention.placed(tenantId);
    this.telling.stir();
  }

  private learn({ id, manifestVersion }: DeviceContext): void {
    const { services, log } = this.parts;
    services.manifests
      .of([{ id, manifestVersion }])
      .then((found) => {
        const manifest = found.get(id);
        if (manifest !== undefined) this.telling.learn(manifest);
      })
      .catch((error: unknown) => log.warn({ err: error }, 'a sidecar was not told of a manifest'));
  }
}

/** What a person changes of a device that a sidecar may see. */
const changesManifests = new Set(['manifest.register', 'manifest.update']);
const changesDevices = new Set(['register', 'patch', 'revoke', 'reinstate', 'delete', ...changesManifests]);
/** What may take a device out of its home. */
const changesPlaces = new Set(['patch', 'revoke', 'delete']);

const interruption = ({ contextId, reason, detail }: Extract<ContextChange, { type: 'interrupted' }>): Event => ({
  case: 'interruptSignal',
  value: { contextId, reason: interruptReasons[reason], detail },
});
