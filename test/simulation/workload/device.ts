import type { Packet } from 'mqtt-packet';
import type { JsonObject } from '../../../src/domain/values.ts';
import { PROTOCOL_VERSION } from '../../../src/protocol/constants.ts';
import { checkCloudMessage, composeMessage } from '../../../src/protocol/envelope.ts';
import type { CloudPayload, CmdPayload } from '../../../src/protocol/payloads.ts';
import { sessionCredentials } from '../../../src/protocol/session-token.ts';
import { newNonce, signingKey } from '../../../src/protocol/signature.ts';
import { type DeviceChannel, deviceTopic } from '../../../src/protocol/topics.ts';
import { noConnect, packetReader, type Violation } from '../network/packets.ts';
import type { Cluster } from '../service/cluster.ts';
import type { Break, ClientConnection, ClientEnd } from '../service/mqtt-listener.ts';
import type { Random } from '../world/random.ts';
import type { World } from '../world/world.ts';
import { carryOut } from './actions.ts';
import type { Import } from './imports.ts';
import { type Owed, Session } from './session.ts';

/** A value that the database refuses to store. */
export const REFUSED_STATE = { refused: true } as const;
const isRefused = (payload: JsonObject): boolean => (payload.state as JsonObject | undefined)?.refused === true;

const MOST_OWED = 20;
/** Without a response for this long it treats the connection as lost. */
const SILENCE_LIMIT_MS = 12_000;
const KEEP_ALIVES_S = [10, 30, 60];
/** Fraction of the keep-alive after which an idle device sends a PINGREQ. */
const PING_AFTER = 0.7;

/**
 * A device with persistent memory: it reports increasing numbers, each once, resends unacknowledged messages, and
 * carries out each command once.
 */
export class Device {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: 'light' | 'lock';
  /** When its registration was requested. */
  readonly registeredAt: number;
  /** Its secrets by key version. */
  readonly secrets = new Map<number, string>();
  /** Reported numbers, and the last acknowledged one. */
  counter = 0;
  acknowledged = 0;
  readonly acknowledgedNumbers = new Set<number>();
  /** Requests that import history of it, in their order. */
  readonly imports: Import[] = [];
  /** State reports that were composed, and the acknowledged ones. */
  reports = 0;
  reportsAcknowledged = 0;
  /** State reports that were discarded without knowing whether they had arrived. */
  forgotten = 0;
  readonly executed = new Set<string>();
  firmware = '1.0.0';
  owed: Owed[] = [];
  session: Session | null = null;
  /** Open connections with a protocol violation. */
  openViolations = 0;
  /** Called when the service refused a sign-in, to check that it was right to. */
  refused: (keyVersion: number) => void = () => {};
  executes: (command: CmdPayload) => void = () => {};
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #random: Random;
  readonly #keepAliveS: number;
  /** The CONNECT that opened its newest session. */
  #used: Buffer | null = null;
  #sequence = 0;
  readonly #refusedIds = new Set<string>();
  #running = true;
  #lastReceivedAt = 0;

  constructor(parts: {
    world: World;
    cluster: Cluster;
    id: string;
    tenantId: string;
    kind: Device['kind'];
    registeredAt: number;
    secret: string;
  }) {
    this.#world = parts.world;
    this.#cluster = parts.cluster;
    this.id = parts.id;
    this.tenantId = parts.tenantId;
    this.kind = parts.kind;
    this.registeredAt = parts.registeredAt;
    this.secrets.set(1, parts.secret);
    this.#random = parts.world.random.fork(`device ${parts.id}`);
    this.#keepAliveS = this.#random.pick(KEEP_ALIVES_S);
    this.#live();
  }

  get online(): boolean {
    return this.session?.ready === true;
  }

  get newestKey(): number {
    return Math.max(...this.secrets.keys());
  }

  /** Reports the next number; false if too many messages are unacknowledged. */
  count(more: JsonObject = {}): boolean {
    if (this.owed.length >= MOST_OWED) return false;
    const n = ++this.counter;
    this.#report({ n, ...more }, () => {
      this.acknowledged = Math.max(this.acknowledged, n);
      this.acknowledgedNumbers.add(n);
    });
    return true;
  }

  /** After a reinstatement: continues with a new key, and discards its queue. */
  beginAnew(keyVersion: number, secret: string): void {
    this.secrets.set(keyVersion, secret);
    this.forgotten += this.owed.filter(({ payload }) => 'state' in payload && !isRefused(payload)).length;
    this.owed = [];
    this.leave();
  }

  /** Reports a value that the database refuses. It is sent once, and discarded if the connection is lost. */
  reportRefused(): void {
    if (!this.online || this.owed.length >= MOST_OWED) return;
    this.#enqueue('state', { state: { ...REFUSED_STATE } }, () => this.#world.count('refused report acknowledged'));
  }

  heartbeat(): void {
    if (this.owed.length < MOST_OWED) this.#enqueue('heartbeat', { battery: this.#random.int(101) }, () => {});
  }

  /** The network loses its connection. */
  breaks(how: Break): void {
    if (this.session === null || this.session.broken) return;
    this.#note(`connection ${how}`);
    this.session.connection.breaks(how);
  }

  /** Replays the CONNECT that opened its newest session on another connection. */
  replayConnect(): void {
    if (this.#used === null) return;
    const used = this.#used;
    const read = packetReader((packet) => {
      if (packet.cmd !== 'connack' || packet.returnCode !== 0) return;
      this.#world.fail('session-tokens-are-single-use', `a CONNECT of ${this.id} was accepted twice`);
    });
    const connection = this.#open({ received: read, closed() {} }, '203.0.113.9');
    if (connection === null) return;
    this.#world.count('CONNECT sent again');
    connection.write(used);
  }

  /** Violates the protocol on its connection, and waits until the service closes it. */
  violates(how: Violation): void {
    const { session } = this;
    if (session?.ready !== true || session.broken || !session.connection.up) return;
    this.#note(how);
    this.#world.count(`violation: ${how}`);
    session.violate(how, this.#random);
    this.openViolations += 1;
  }

  /** Opens another connection without a CONNECT, and waits until the service closes it. */
  sendsNoConnect(): void {
    const closed = () => {
      this.openViolations -= 1;
    };
    const connection = this.#open({ received() {}, closed }, '203.0.113.10');
    if (connection === null) return;
    this.#world.count('violation: no CONNECT');
    this.openViolations += 1;
    connection.misbehaves('later');
    const bytes = noConnect(this.#random);
    if (bytes.length > 0) connection.write(bytes);
  }

  /** Closes its connection, usually with a DISCONNECT; it reconnects by itself. */
  leave(): void {
    const { session } = this;
    this.session = null;
    session?.end(this.#random.chance(0.8));
  }

  /** Stops permanently. */
  stop(): void {
    this.#running = false;
    this.leave();
  }

  #report(state: JsonObject, acknowledged: () => void): void {
    this.reports += 1;
    this.#enqueue('state', { state }, () => {
      this.reportsAcknowledged += 1;
      acknowledged();
    });
  }

  #enqueue(channel: DeviceChannel, payload: JsonObject, acknowledged: () => void): void {
    const sequence = ++this.#sequence;
    const owed: Owed = { sequence, messageId: `${this.id.slice(-6)}-${sequence}`, channel, payload, acknowledged };
    this.owed.push(owed);
    if (isRefused(payload)) this.#refusedIds.add(owed.messageId);
    if (this.online) this.#send(owed);
  }

  /** Signs in whenever it is disconnected, and checks for responses. */
  #live(): void {
    if (!this.#running) return;
    const { session } = this;
    if (session === null) {
      this.owed = this.owed.filter(({ payload }) => !isRefused(payload));
      this.#connect();
    } else if (!session.broken) this.#keepAlive(session);
    this.#world.scheduler.at(this.#random.between(100, 900), () => this.#live(), null);
  }

  #keepAlive(session: Session): void {
    const { now } = this.#world.scheduler;
    const waits = this.owed.length > 0 || !session.ready || session.pinging;
    if (waits && now - this.#lastReceivedAt > SILENCE_LIMIT_MS) {
      this.#note('is not answered');
      this.leave();
    } else if (session.ready && session.idleMs > this.#keepAliveS * 1_000 * PING_AFTER) {
      if (!waits) this.#lastReceivedAt = now;
      session.ping();
    }
  }

  #open(client: ClientEnd, address: string): ClientConnection | null {
    return this.#cluster.serving()?.service?.mqtt.accept(client, address, this.id) ?? null;
  }

  #connect(): void {
    const keyVersion = this.newestKey;
    const key = signingKey('hmac-sha256', this.secrets.get(keyVersion) as string);
    const now = this.#world.now();
    let session: Session | null = null;
    const read = packetReader((packet) => {
      if (session !== null && this.session === session) this.#received(session, packet);
    });
    const closed = () => {
      if (session?.broken === true) this.openViolations -= 1;
      if (this.session === session) this.session = null;
    };
    const connection = this.#open({ received: read, closed }, '198.51.100.7');
    if (connection === null) return;
    const credentials = sessionCredentials({ deviceId: this.id, tenantId: this.tenantId, key }, now, newNonce());
    session = new Session(this.#world, connection, { ...credentials, keepAliveS: this.#keepAliveS, keyVersion, key });
    this.session = session;
    this.#lastReceivedAt = now;
  }

  #received(session: Session, packet: Packet): void {
    this.#lastReceivedAt = this.#world.scheduler.now;
    if (packet.cmd === 'connack') this.#signedIn(session, packet.returnCode);
    else if (packet.cmd === 'suback') this.#greet(session);
    else if (packet.cmd === 'puback') this.#acknowledged(session, packet.messageId as number);
    else if (packet.cmd === 'pingresp') session.pinging = false;
    else if (packet.cmd === 'publish') {
      const { messageId } = packet;
      if (packet.qos === 1) session.acknowledge(messageId as number);
      this.#receive(session, packet.payload as Buffer);
    } else this.#world.fail('the-run-completes', `${this.id} got a packet of type ${packet.cmd}`);
  }

  #signedIn(session: Session, returnCode: number | undefined): void {
    this.#note(`connack ${returnCode}`);
    if (returnCode === 5) this.refused(session.keyVersion);
    if (returnCode !== 0) return;
    session.subscribe(deviceTopic(this.tenantId, this.id, 'cmd'));
  }

  #greet(session: Session): void {
    // `hello` carries the next sequence number without using it.
    const payload = { protocol: PROTOCOL_VERSION, firmware: this.firmware };
    const hello = { sequence: this.#sequence + 1, messageId: newNonce(), channel: 'hello', payload } as const;
    this.#publish(session, [{ ...hello, acknowledged() {} }]);
  }

  #acknowledged(session: Session, packetId: number): void {
    const owed = session.settle(packetId);
    const at = owed === undefined ? -1 : this.owed.indexOf(owed);
    if (owed === undefined || at < 0) return;
    this.#note(`puback ${owed.channel} ${owed.sequence}`);
    this.owed.splice(at, 1);
    owed.acknowledged();
  }

  #receive(session: Session, bytes: Buffer): void {
    const about = { deviceId: this.id, tenantId: this.tenantId, clientId: session.clientId, keys: [session.key] };
    const checked = checkCloudMessage(bytes, about, this.#world.now());
    if (!checked.ok || !checked.content.ok) {
      const why = checked.ok ? 'its payload' : checked.code;
      this.#world.fail('devices-can-verify-messages', `${this.id} cannot take a message: ${why}`);
      return;
    }
    this.#heed(session, checked.content.value);
  }

  #heed(session: Session, sent: CloudPayload): void {
    if (sent.type === 'hello_ack') {
      session.ready = true;
      this.#used = session.connect;
      this.#sequence = Math.max(this.#sequence, sent.payload.last_sequence);
      const resent = this.#random.chance(0.3) ? this.#random.shuffled(this.owed) : this.owed;
      this.#publish(session, resent);
    } else if (sent.type === 'error' && this.#isToBeRefused(sent.payload.message_id)) {
      if (sent.payload.code === 'PAYLOAD_INVALID') return;
      this.#world.fail(
        'rejected-data-does-not-affect-its-batch',
        `${this.id}: ${sent.payload.code} for a refused report`,
      );
    } else if (sent.type === 'error') {
      this.#world.fail(
        'valid-messages-are-accepted',
        `${this.id}: ${sent.payload.code} for ${sent.payload.message_id}`,
      );
    } else this.#carryOut(sent.payload);
  }

  #isToBeRefused(messageId: string | null): boolean {
    return messageId !== null && this.#refusedIds.has(messageId);
  }

  #carryOut(command: CmdPayload): void {
    const { command_id: commandId, expires_at } = command;
    if (this.executed.has(commandId)) return;
    if (expires_at <= this.#world.now()) {
      this.#world.count('came too late');
      return;
    }
    this.executed.add(commandId);
    this.#world.count(`carried out ${command.action}`);
    this.executes(command);
    for (const { afterMs, ack } of carryOut(this, command, this.#random)) {
      this.#world.scheduler.at(afterMs, () => this.#answer(commandId, ack), null);
    }
  }

  #answer(commandId: string, ack: JsonObject): void {
    const notified = 'state' in ack;
    if (notified) this.reports += 1;
    this.#enqueue('cmd_ack', { command_id: commandId, ...ack }, () => {
      if (notified) this.reportsAcknowledged += 1;
    });
  }

  /** Sends unacknowledged messages; occasionally twice, as a client that resends within a connection. */
  #send(owed: Owed): void {
    const { session } = this;
    if (session === null) return;
    this.#publish(session, [owed]);
    if (this.#random.chance(0.03)) this.#publish(session, [owed]);
  }

  #publish(session: Session, all: readonly Owed[]): void {
    const messages = all.map((owed) => {
      const text = composeMessage({
        ...{ deviceId: this.id, tenantId: this.tenantId, clientId: session.clientId, requestId: '' },
        ...{ messageId: owed.messageId, sequence: owed.sequence, type: owed.channel, payload: owed.payload },
        ...{ timestamp: this.#world.now(), nonce: newNonce(), keyVersion: session.keyVersion, key: session.key },
      });
      return { owed, topic: deviceTopic(this.tenantId, this.id, owed.channel), text };
    });
    session.publish(messages);
  }

  #note(what: string): void {
    this.#world.note(`…${this.id.slice(-4)}`, what);
  }
}
