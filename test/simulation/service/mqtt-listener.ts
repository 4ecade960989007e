import type { Packet } from 'mqtt-packet';
import type { Lease } from '../../../src/domain/lease.ts';
import { guardWrites } from '../../../src/domain/write-guard.ts';
import type { RunningMqtt } from '../../../src/edges/mqtt/edge.ts';
import { type MqttConnection, PUBLISH } from '../../../src/edges/mqtt/mqtt-connection.ts';
import type { CloseReason } from '../../../src/edges/mqtt/mqtt-meter.ts';
import { type End, Link, type Network } from '../network/link.ts';
import { packetReader } from '../network/packets.ts';
import { SimulatedSocket } from '../network/socket.ts';
import { type Owner, runAs } from '../world/scheduler.ts';
import type { World } from '../world/world.ts';

const LATEST_BYTES_MS = 3_000;

export type Break = 'reset' | 'silent' | 'late';

/** Events of a connection for its client. */
export interface ClientEnd {
  received(bytes: Buffer): void;
  closed(): void;
}

/** A client's connection to a process. */
export interface ClientConnection {
  /** Neither side has closed it, and the network has not lost it. */
  readonly up: boolean;
  write(bytes: Buffer): void;
  /** Closes the connection. */
  end(): void;
  /**
   * The network loses the connection: with an event at both ends, at neither, or at the client while its bytes arrive
   * late.
   */
  breaks(how: Break): void;
  /** Announces a protocol violation: the service must close the connection, at once or after a timeout. */
  misbehaves(ends: 'at once' | 'later'): void;
}

/** Reasons for which the service must not close a working connection of a client that keeps to the protocol. */
const unfair: ReadonlySet<CloseReason> = new Set(['protocol', 'oversized', 'forbidden', 'slow', 'silent']);

export interface ListenerParts {
  world: World;
  accept: RunningMqtt['accept'];
  owner: Owner;
  network: Network;
  lease: Lease;
  /** A packet is sent to a client. */
  sending(packet: Packet): void;
  /** A message of a device passed the rate limit. */
  reads(deviceId: string): void;
}

/** Accepts connections instead of `openSockets`: each is a stream over a simulated link, passed to the edge. */
export class MqttListener {
  readonly #parts: ListenerParts;
  /** Lost when the process ends. */
  readonly #links = new Set<Link>();

  constructor(parts: ListenerParts) {
    this.#parts = parts;
  }

  /** Connects a client at `address`, which may sign in as the device. */
  accept(client: ClientEnd, address: string, deviceId: string): ClientConnection {
    const { world, owner, network } = this.#parts;
    const { scheduler } = world;
    const random = world.random.fork(`link ${scheduler.steps}`);
    let ends: 'at once' | 'later' | null = null;
    const closed = () => {
      if (this.#links.delete(link)) client.closed();
    };
    const clientEnd: End = { received: (bytes) => client.received(bytes), ended: closed, broke: closed };
    const written = packetReader(this.#parts.sending);
    const socket = new SimulatedSocket({
      send: (bytes) => {
        written(bytes);
        link.send('client', bytes);
      },
      end: () => link.end('client'),
    });
    const link = new Link({ scheduler, random, network, server: owner, ends: { client: clientEnd, server: socket } });
    this.#links.add(link);
    // A silently lost link emits no event: only the service's end closes.
    socket.once('close', () => link.silent && this.#links.delete(link));
    const wire = runAs(owner, () => this.#serve(socket, address, deviceId));
    wire?.once('close', () => {
      world.count(`connection ended: ${wire.reason ?? 'peer'}`);
      if (wire.reason !== null && link.up) this.#checkEnd(deviceId, wire.reason, ends);
    });
    return {
      get up() {
        return link.up;
      },
      write: (bytes) => link.send('server', bytes),
      end: () => link.end('server'),
      breaks: (how) => {
        if (how === 'reset') link.reset();
        else if (how === 'silent') link.silence();
        else link.strand(random.float(LATEST_BYTES_MS));
      },
      misbehaves: (how) => {
        ends = how;
      },
    };
  }

  /** Called when the process has ended: its host closes every connection. */
  died(): void {
    for (const link of this.#links) link.reset();
  }

  #serve(socket: SimulatedSocket, address: string, deviceId: string): MqttConnection | null {
    const { accept, lease, reads } = this.#parts;
    guardWrites(socket, () => lease.valid());
    const wire = accept(socket, { address, transport: 'tcp', encrypted: false });
    if (wire === null) {
      socket.destroy();
      return null;
    }
    const open = wire.open.bind(wire);
    wire.open = (latch) =>
      open({
        ...latch,
        // A message takes its token with its first byte, and may be complete much later.
        admit: (type) => {
          const waitMs = latch.admit(type);
          if (type === PUBLISH && waitMs === 0) reads(deviceId);
          return waitMs;
        },
      });
    return wire;
  }

  /** Called when the service closed a connection that the network has not lost. */
  #checkEnd(deviceId: string, reason: CloseReason, ends: 'at once' | 'later' | null): void {
    const { world } = this.#parts;
    if (ends === null && unfair.has(reason)) {
      world.fail('valid-connections-stay-open', `the connection of ${deviceId} was ended: ${reason}`);
    }
    if (ends === 'at once' && reason === 'silent') {
      world.fail(
        'protocol-violations-close-connections',
        `${deviceId} broke the protocol, and its connection ended by its silence`,
      );
    }
  }
}
