import type { Lease } from '../../../src/domain/lease.ts';
import type { Edge } from '../../../src/edges/mqtt/edge.ts';
import type { Peer } from '../../../src/edges/mqtt/gatekeeper.ts';
import { type ClientEnd, SimulatedConnection } from '../network/connection.ts';
import { Link, type Network } from '../network/link.ts';
import { type Owner, runAs } from '../world/scheduler.ts';
import type { World } from '../world/world.ts';

const ACCEPTED = 0;
const UNAVAILABLE = 3;
const NOT_AUTHORIZED = 5;
/** When the service gives up on a peer that a broken network hides from it: one and a half keep-alives. */
const SILENT_MS = 90_000;
const LATEST_PACKET_MS = 3_000;

export interface Credentials {
  clientId: string;
  username: string;
  password: string;
}

export type Break = 'reset' | 'silent' | 'late';

/** A client's connection to a process. */
export interface MqttClient {
  connect(credentials: Credentials): void;
  subscribe(topic: string): void;
  /** A PUBLISH packet. */
  publish(packet: Buffer): void;
  /** Ends the connection properly. */
  end(): void;
  /** The network loses the connection: both ends are told, or neither, or the client while its packets arrive late. */
  breaks(how: Break): void;
}

/** Answers CONNECT and SUBSCRIBE as the broker library does, and passes everything else to the edge. */
export class MqttListener {
  readonly #world: World;
  readonly #edge: Edge;
  readonly #owner: Owner;
  readonly #network: Network;
  readonly #lease: Lease;
  readonly #sending: (frame: Buffer) => void;
  /** A message of a device is let through. */
  readonly #reads: (deviceId: string) => void;
  /** What the clients see when the process dies. */
  readonly #links = new Map<Link, () => void>();

  constructor(parts: {
    world: World;
    edge: Edge;
    owner: Owner;
    network: Network;
    sending(frame: Buffer): void;
    lease: Lease;
    reads(deviceId: string): void;
  }) {
    this.#world = parts.world;
    this.#edge = parts.edge;
    this.#owner = parts.owner;
    this.#network = parts.network;
    this.#sending = parts.sending;
    this.#lease = parts.lease;
    this.#reads = parts.reads;
  }

  accept(end: ClientEnd, address: string): MqttClient {
    const { scheduler, random } = this.#world;
    const link = new Link({
      scheduler,
      random: random.fork(`link ${scheduler.steps}`),
      network: this.#network,
      server: this.#owner,
    });
    const client: ClientEnd = {
      received: end.received.bind(end),
      closed: () => {
        this.#links.delete(link);
        end.closed();
      },
    };
    let peer: Peer | null = null;
    const connection = new SimulatedConnection(link, client, {
      address,
      sending: this.#sending,
      lease: this.#lease,
      reads: () => peer?.kind === 'device' && this.#reads(peer.deviceId),
    });
    this.#links.set(link, client.closed);
    runAs(this.#owner, () => this.#edge.attach(connection, 'tcp'));
    const lost = () => {
      this.#links.delete(link);
      peer = null;
      connection.lost();
    };
    return {
      connect: (credentials) =>
        link.send('server', () => {
          void this.#signIn(connection, credentials).then((signedIn) => {
            peer = signedIn;
          });
        }),
      subscribe: (topic) => link.send('server', () => peer !== null && this.#subscribe(connection, peer, topic)),
      publish: (packet) => link.send('server', () => connection.publish(packet)),
      end: () => link.end('server', lost),
      breaks: (how) => {
        if (how === 'reset') {
          link.reset({ client: client.closed, server: lost });
          return;
        }
        if (how === 'late') {
          link.strand(random.float(LATEST_PACKET_MS), { client: client.closed, server: lost });
          return;
        }
        link.silence();
        this.#world.scheduler.at(SILENT_MS, lost, this.#owner);
      },
    };
  }

  /** The process is gone: its host closes every connection. */
  died(): void {
    for (const [link, closed] of this.#links) link.reset({ client: closed, server: () => {} });
    this.#links.clear();
  }

  async #signIn(connection: SimulatedConnection, given: Credentials): Promise<Peer | null> {
    const { clientId, username, password } = given;
    const connect = { clientId, username, password: Buffer.from(password), clean: true, will: false };
    const answer = await this.#edge.signIn(connect, connection);
    if (typeof answer === 'string' || !this.#edge.enter(answer)) {
      connection.reply({ type: 'connack', code: answer === 'refused' ? NOT_AUTHORIZED : UNAVAILABLE });
      connection.finish('refused');
      return null;
    }
    connection.reply({ type: 'connack', code: ACCEPTED });
    this.#edge.ready(answer);
    return answer;
  }

  #subscribe(connection: SimulatedConnection, peer: Peer, topic: string): void {
    if (connection.closing) return;
    const granted = this.#edge.maySubscribe(peer, topic, 1);
    connection.reply({ type: 'suback', granted });
    if (granted) this.#edge.subscribed(peer, topic, 1);
  }
}
