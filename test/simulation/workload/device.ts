import { checkCloudMessage, composeMessage } from '../../../src/domain/envelope.ts';
import type { CloudPayload, CmdPayload } from '../../../src/domain/payloads.ts';
import { PROTOCOL_VERSION } from '../../../src/domain/protocol.ts';
import { sessionCredentials } from '../../../src/domain/session.ts';
import { newNonce, type SigningKey, signingKey } from '../../../src/domain/signature.ts';
import { type DeviceChannel, deviceTopic } from '../../../src/domain/topics.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import { nextPacketId, publish } from '../../../src/edges/mqtt/frames.ts';
import type { ToClient } from '../network/connection.ts';
import { readPackets } from '../network/packets.ts';
import type { Cluster } from '../service/cluster.ts';
import type { Break, Credentials, MqttClient } from '../service/mqtt-listener.ts';
import type { Random } from '../world/random.ts';
import type { World } from '../world/world.ts';
import { carryOut } from './actions.ts';

/** A message that the device owes until it is acknowledged; kept over connections. */
interface Owed {
  sequence: number;
  messageId: string;
  channel: DeviceChannel;
  payload: JsonObject;
  acknowledged(): void;
}

interface Session {
  client: MqttClient;
  credentials: Credentials;
  clientId: string;
  keyVersion: number;
  key: SigningKey;
  /** The subscription stands and `hello` was answered. */
  ready: boolean;
  packetId: number;
  /** What each packet identifier under way carries. */
  underWay: Map<number, Owed>;
}

/** What the database refuses, as a row with this in it. */
export const REFUSED_STATE = { refused: true } as const;
const isRefused = (payload: JsonObject): boolean => (payload.state as JsonObject | undefined)?.refused === true;

const MOST_OWED = 20;
/** Without an answer to what it sends for this long it takes the connection for broken. */
const PATIENCE_MS = 12_000;

/**
 * A device with a memory that survives everything: it counts upwards, reports each number once, sends again what was not
 * acknowledged, and carries out each command once.
 */
export class Device {
  readonly id: string;
  readonly tenantId: string;
  readonly kind: 'light' | 'lock';
  /** The secrets that it was given, by key version. */
  readonly secrets = new Map<number, string>();
  /** Numbers that were reported, and the last one that was acknowledged. */
  counter = 0;
  acknowledged = 0;
  /** State reports that it has composed, and of those the acknowledged ones. */
  reports = 0;
  reportsAcknowledged = 0;
  /** State reports that it threw away without knowing whether they had arrived. */
  forgotten = 0;
  readonly executed = new Set<string>();
  firmware = '1.0.0';
  owed: Owed[] = [];
  session: Session | null = null;
  /** The service refused it; told to whoever knows whether that is right. */
  refused: (keyVersion: number) => void = () => {};
  executes: (command: CmdPayload) => void = () => {};
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #random: Random;
  /** The CONNECT that opened its newest session. */
  #used: Credentials | null = null;
  #sequence = 0;
  readonly #refusedIds = new Set<string>();
  #running = true;
  #heardAt = 0;

  constructor(parts: {
    world: World;
    cluster: Cluster;
    id: string;
    tenantId: string;
    kind: Device['kind'];
    secret: string;
  }) {
    this.#world = parts.world;
    this.#cluster = parts.cluster;
    this.id = parts.id;
    this.tenantId = parts.tenantId;
    this.kind = parts.kind;
    this.secrets.set(1, parts.secret);
    this.#random = parts.world.random.fork(`device ${parts.id}`);
    this.#live();
  }

  get online(): boolean {
    return this.session?.ready === true;
  }

  get newestKey(): number {
    return Math.max(...this.secrets.keys());
  }

  /** Reports the next number; false where too much is owed already. */
  count(more: JsonObject = {}): boolean {
    if (this.owed.length >= MOST_OWED) return false;
    const n = ++this.counter;
    this.#report({ n, ...more }, () => {
      this.acknowledged = Math.max(this.acknowledged, n);
    });
    return true;
  }

  /** It was reinstated: it begins anew with another key, and what it still had to say is gone. */
  beginAnew(keyVersion: number, secret: string): void {
    this.secrets.set(keyVersion, secret);
    this.forgotten += this.owed.filter(({ payload }) => 'state' in payload && !isRefused(payload)).length;
    this.owed = [];
    this.leave();
  }

  /** Reports what the database refuses to store. It is sent once, and forgotten where the connection is lost. */
  reportRefused(): void {
    if (!this.online || this.owed.length >= MOST_OWED) return;
    this.#owe('state', { state: { ...REFUSED_STATE } }, () => this.#world.count('refused report acknowledged'));
  }

  heartbeat(): void {
    if (this.owed.length < MOST_OWED) this.#owe('heartbeat', { battery: this.#random.int(101) }, () => {});
  }

  /** The network loses its connection. */
  breaks(how: Break): void {
    if (this.session === null) return;
    this.#note(`connection ${how}`);
    this.session.client.breaks(how);
  }

  /** Somebody sends a CONNECT that has opened a session once more, to whichever process takes connections. */
  replayConnect(): void {
    const service = this.#cluster.serving()?.service;
    if (!service || this.#used === null) return;
    this.#world.count('CONNECT sent again');
    const received = (packet: ToClient) => {
      if (packet.type !== 'connack' || packet.code !== 0) return;
      this.#world.fail('tokens-open-one-session', `a CONNECT of ${this.id} was accepted twice`);
    };
    service.mqtt.accept({ received, closed() {} }, '203.0.113.9').connect(this.#used);
  }

  /** Says goodbye; it comes back by itself. */
  leave(): void {
    this.session?.client.end();
    this.session = null;
  }

  /** Switched off for good. */
  stop(): void {
    this.#running = false;
    this.leave();
  }

  #report(state: JsonObject, acknowledged: () => void): void {
    this.reports += 1;
    this.#owe('state', { state }, () => {
      this.reportsAcknowledged += 1;
      acknowledged();
    });
  }

  #owe(channel: DeviceChannel, payload: JsonObject, acknowledged: () => void): void {
    const sequence = ++this.#sequence;
    const owed: Owed = { sequence, messageId: `${this.id.slice(-6)}-${sequence}`, channel, payload, acknowledged };
    this.owed.push(owed);
    if (isRefused(payload)) this.#refusedIds.add(owed.messageId);
    if (this.online) this.#send(owed);
  }

  /** Signs in whenever it is not connected, and looks whether it is heard. */
  #live(): void {
    if (!this.#running) return;
    const { session } = this;
    if (session === null) {
      this.owed = this.owed.filter(({ payload }) => !isRefused(payload));
      this.#connect();
    } else if ((this.owed.length > 0 || !session.ready) && this.#world.scheduler.now - this.#heardAt > PATIENCE_MS) {
      this.#note('is not answered');
      this.leave();
    }
    this.#world.scheduler.at(this.#random.between(100, 900), () => this.#live(), null);
  }

  #connect(): void {
    const process = this.#cluster.serving();
    if (!process?.service) return;
    const keyVersion = this.newestKey;
    const key = signingKey('hmac-sha256', this.secrets.get(keyVersion) as string);
    const now = this.#world.now();
    const credentials = sessionCredentials({ deviceId: this.id, tenantId: this.tenantId, key }, now, newNonce());
    this.#heardAt = now;
    let session: Session | null = null;
    const client = process.service.mqtt.accept(
      {
        received: (packet) => {
          if (session !== null && this.session === session) this.#received(session, packet);
        },
        closed: () => {
          if (this.session === session) this.session = null;
        },
      },
      '198.51.100.7',
    );
    const { clientId } = credentials;
    session = { client, credentials, clientId, keyVersion, key, ready: false, packetId: 0, underWay: new Map() };
    this.session = session;
    client.connect(credentials);
  }

  #received(session: Session, packet: ToClient): void {
    this.#heardAt = this.#world.scheduler.now;
    if (packet.type === 'connack') {
      this.#note(`connack ${packet.code}`);
      if (packet.code === 5) this.refused(session.keyVersion);
      if (packet.code === 0) session.client.subscribe(deviceTopic(this.tenantId, this.id, 'cmd'));
    } else if (packet.type === 'suback') {
      // A hello names the next number and does not use it.
      const payload = { protocol: PROTOCOL_VERSION, firmware: this.firmware };
      const hello = { sequence: this.#sequence + 1, messageId: newNonce(), channel: 'hello', payload } as const;
      this.#publish(session, { ...hello, acknowledged() {} });
    } else
      for (const one of readPackets(packet.bytes)) {
        if (one.type === 'puback') this.#acknowledged(session, one.packetId);
        else this.#told(session, one.payload);
      }
  }

  #acknowledged(session: Session, packetId: number): void {
    const owed = session.underWay.get(packetId);
    session.underWay.delete(packetId);
    const at = owed === undefined ? -1 : this.owed.indexOf(owed);
    if (owed === undefined || at < 0) return;
    this.#note(`puback ${owed.channel} ${owed.sequence}`);
    this.owed.splice(at, 1);
    owed.acknowledged();
  }

  #told(session: Session, bytes: Buffer): void {
    const about = { deviceId: this.id, tenantId: this.tenantId, clientId: session.clientId, keys: [session.key] };
    const checked = checkCloudMessage(bytes, about, this.#world.now());
    if (!checked.ok || !checked.message.body.ok) {
      const why = checked.ok ? 'its payload' : checked.refusal.code;
      this.#world.fail('devices-can-check-what-they-get', `${this.id} cannot take a message: ${why}`);
      return;
    }
    this.#heed(session, checked.message.body.value);
  }

  #heed(session: Session, said: CloudPayload): void {
    if (said.type === 'hello_ack') {
      session.ready = true;
      this.#used = session.credentials;
      this.#sequence = Math.max(this.#sequence, said.payload.last_sequence);
      const resent = this.#random.chance(0.3) ? this.#random.shuffled(this.owed) : this.owed;
      for (const owed of resent) this.#send(owed);
    } else if (said.type === 'error' && this.#isToBeRefused(said.payload.message_id)) {
      if (said.payload.code === 'PAYLOAD_INVALID') return;
      this.#world.fail('refused-data-is-refused-alone', `${this.id}: ${said.payload.code} for a refused report`);
    } else if (said.type === 'error') {
      this.#world.fail('honest-messages-are-taken', `${this.id}: ${said.payload.code} for ${said.payload.message_id}`);
    } else this.#carryOut(said.payload);
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
    const told = 'state' in ack;
    if (told) this.reports += 1;
    this.#owe('cmd_ack', { command_id: commandId, ...ack }, () => {
      if (told) this.reportsAcknowledged += 1;
    });
  }

  /** Sends what is owed; now and then twice, as a client does that sends again within a connection. */
  #send(owed: Owed): void {
    const { session } = this;
    if (session === null) return;
    this.#publish(session, owed);
    if (this.#random.chance(0.03)) this.#publish(session, owed);
  }

  #publish(session: Session, owed: Owed): void {
    session.packetId = nextPacketId(session.packetId);
    session.underWay.set(session.packetId, owed);
    const text = composeMessage({
      ...{ deviceId: this.id, tenantId: this.tenantId, clientId: session.clientId, requestId: '' },
      ...{ messageId: owed.messageId, sequence: owed.sequence, type: owed.channel, payload: owed.payload },
      ...{ timestamp: this.#world.now(), nonce: newNonce(), keyVersion: session.keyVersion, key: session.key },
    });
    session.client.publish(publish(deviceTopic(this.tenantId, this.id, owed.channel), text, session.packetId));
  }

  #note(what: string): void {
    this.#world.note(`…${this.id.slice(-4)}`, what);
  }
}
