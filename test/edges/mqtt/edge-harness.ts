import { randomUUID } from 'node:crypto';
import {
  type Actors,
  type Committed,
  type LiveSession,
  NoSuchActor,
  type Reply,
  type ReplyHandler,
  type VolatileOutputHandler,
} from '../../../src/actors/contract.ts';
import type { Clock } from '../../../src/domain/clock.ts';
import type { SigningAlg } from '../../../src/domain/device-key.ts';
import { acceptSequence, emptyWindow, judgeSequence, type ReplayWindow } from '../../../src/domain/replay-window.ts';
import { type MqttEdge, type MqttParts, openMqtt } from '../../../src/edges/mqtt/edge.ts';
import type { MqttMeter } from '../../../src/edges/mqtt/mqtt-meter.ts';
import type { MqttUser } from '../../../src/edges/mqtt/user-session.ts';
import { clientAddress } from '../../../src/edges/shared/client-address.ts';
import { encryptedRequests } from '../../../src/edges/shared/transport-security.ts';
import type { MachineEvent } from '../../../src/machines/definition.ts';
import type { DeviceEvent, DeviceFixed } from '../../../src/machines/device-types.ts';
import type { ActorRef, Output, VolatileOutput } from '../../../src/machines/outputs.ts';
import type { Services } from '../../../src/operations/operation.ts';
import {
  cloudPublicKey,
  newDeviceSecret,
  publicKeyFromSeed,
  type SigningKey,
  signingKey,
} from '../../../src/protocol/signature.ts';
import { DeviceActivityLog } from '../../../src/services/device-activity-log.ts';
import { makeLocalInvalidationBus } from '../../../src/services/invalidation-bus.ts';
import type { StoredDeviceKey } from '../../../src/store/contract.ts';

export interface TestDevice {
  deviceId: string;
  tenantId: string;
  secret: string;
  alg: SigningAlg;
  keyVersion: number;
}

interface Row {
  device: TestDevice;
  keys: StoredDeviceKey[];
  revoked: boolean;
  window: ReplayWindow;
  grace: DeviceFixed['grace'];
}

/** An event that an actor received. */
export interface Received {
  ref: ActorRef;
  event: MachineEvent;
}

/**
 * The service as the edge sees it: devices that only check sequence numbers, existing commands, and stored sessions. A
 * test may hold commits back or make them fail.
 */
/** The port is 0 if the edge has no listener without TLS. */
export type OpenMqttEdge = MqttEdge & { port: number };

export class EdgeHarness {
  now = 1_800_000_000_000;
  readonly clock: Clock = { now: () => this.now };
  readonly rows = new Map<string, Row>();
  readonly tenants = new Map<string, 'active' | 'suspended'>();
  readonly commands = new Map<string, { deviceId: string }>();
  readonly users = new Map<string, MqttUser>();
  readonly received: Received[] = [];
  readonly live = new Map<string, LiveSession>();
  readonly closed: string[] = [];
  readonly subscriptions: string[] = [];
  readonly seen: { deviceId: string; battery?: number }[] = [];
  readonly counted: Record<string, number> = {};
  readonly lookups: number[] = [];
  refusals = 0;
  /** A test may delay commits here, or throw. */
  commit: (received: Received) => Promise<void> = async () => {};
  /** The same for messages that a transition emitted. */
  onMessageCommit: (received: Received) => Promise<void> = async () => {};
  lookup: () => Promise<void> = async () => {};
  /** The same for loading a command that is not in memory. */
  reads: () => Promise<void> = async () => {};
  onSubscribed: (deviceId: string, sessionId: string) => Promise<void> = async () => {};
  /** False: actors are found only by `read`. */
  inMemory = true;
  readonly cloudKey = signingKey('ed25519', newDeviceSecret());
  readonly cloudPublicKey = cloudPublicKey(this.cloudKey);
  /** `DEVICE_SIGNING_KEY_PREVIOUS`; set before the edge opens. */
  previousCloudKey: SigningKey | null = null;

  readonly #subscribers = new Map<string, Set<(output: VolatileOutput) => void>>();
  readonly #watchers = new Set<Parameters<Actors['subscribeTransitions']>[0]>();

  addTenant(): string {
    const id = randomUUID();
    this.tenants.set(id, 'active');
    return id;
  }

  addDevice(tenantId = this.addTenant(), alg: SigningAlg = 'hmac-sha256'): TestDevice {
    const device = { deviceId: randomUUID(), tenantId, secret: newDeviceSecret(), alg, keyVersion: 1 };
    this.rows.set(device.deviceId, {
      device,
      keys: [this.#keyOf(device)],
      revoked: false,
      window: emptyWindow(),
      grace: null,
    });
    return device;
  }

  /** A new key; the previous one is in its grace period until `graceUntil`. */
  rotate(deviceId: string, graceUntil: number): TestDevice {
    const row = this.row(deviceId);
    const before = row.device;
    const device = { ...before, secret: newDeviceSecret(), keyVersion: before.keyVersion + 1 };
    row.device = device;
    row.keys = [this.#keyOf(device), { ...this.#keyOf(before), graceUntil, status: 'grace' }];
    row.grace = { keyVersion: before.keyVersion, until: graceUntil };
    const committed = this.#device(deviceId) as Committed;
    for (const watch of this.#watchers) watch(committed, { type: 'rotate', at: this.now }, null);
    return device;
  }

  /**
   * Reinstates with a new key only. Without `known` the edge gets no notification, as after an unknown commit outcome.
   */
  reinstate(deviceId: string, known = true): TestDevice {
    const row = this.row(deviceId);
    const device = { ...row.device, secret: newDeviceSecret(), keyVersion: row.device.keyVersion + 1 };
    Object.assign(row, { device, keys: [this.#keyOf(device)], revoked: false, window: emptyWindow(), grace: null });
    const committed = this.#device(deviceId) as Committed;
    if (known) for (const watch of this.#watchers) watch(committed, { type: 'reinstate', at: this.now }, null);
    return device;
  }

  revoke(deviceId: string): void {
    const row = this.row(deviceId);
    row.revoked = true;
    row.keys = [];
    this.emit({ type: 'session.end', tenantId: row.device.tenantId, deviceId, reason: 'revoked' });
  }

  emit(output: VolatileOutput): void {
    for (const sink of this.#subscribers.get(output.type) ?? []) sink(output);
  }

  row(deviceId: string): Row {
    const row = this.rows.get(deviceId);
    if (row === undefined) throw new Error('no such device');
    return row;
  }

  events(type: string): MachineEvent[] {
    return this.received.filter(({ event }) => event.type === type).map(({ event }) => event);
  }

  /** An edge on free ports, connected to this service. */
  async open(parts: Partial<MqttParts> = {}): Promise<OpenMqttEdge> {
    const edge = await openMqtt({
      services: this.services,
      settings: {
        host: '127.0.0.1',
        port: 0,
        tls: null,
        maxConnections: 1_000,
        deviceRate: { perSecond: 10_000, burst: 10_000 },
      },
      signingKeys: { current: this.cloudKey, previous: this.previousCloudKey },
      watches: () => [],
      authenticateUser: async (secret) => this.users.get(secret) ?? null,
      addressOf: clientAddress([]),
      isEncrypted: encryptedRequests([]),
      log: { debug() {}, info() {}, warn() {}, error() {} },
      meter: this.meter,
      ...parts,
    });
    return { ...edge, port: edge.port ?? 0 };
  }

  readonly meter: MqttMeter = {
    connected: (transport) => this.#count(`connected ${transport}`),
    closed: (reason) => this.#count(`closed ${reason}`),
    signIn: (outcome) => this.#count(`sign-in ${outcome}`),
    received: (channel) => this.#count(`received ${channel}`),
    refused: (code) => this.#count(`refused ${code}`),
    written: (type) => this.#count(`written ${type}`),
    undone: () => this.#count('undone'),
  };

  #count(what: string): void {
    this.counted[what] = (this.counted[what] ?? 0) + 1;
  }

  #keyOf({ alg, secret, keyVersion }: TestDevice): StoredDeviceKey {
    return {
      keyVersion,
      signingAlg: alg,
      sealedSecret: alg === 'hmac-sha256' ? `sealed ${secret}` : null,
      publicKey: alg === 'ed25519' ? publicKeyFromSeed(secret) : null,
      createdAt: this.now,
      graceUntil: null,
      lastUsedAt: null,
      endedAt: null,
      status: 'active',
    };
  }

  #device(id: string): Committed | null {
    const row = this.rows.get(id);
    if (row === undefined) return null;
    const { tenantId, keyVersion } = row.device;
    return this.#committed(
      { kind: 'device', id },
      { administration: row.revoked ? 'revoked' : { active: 'one_key' }, link: 'offline' },
      {
        id,
        tenantId,
        keyVersion,
        grace: row.grace,
      },
    );
  }

  #find(ref: ActorRef): Committed | null {
    if (ref.kind === 'device') return this.#device(ref.id);
    if (ref.kind === 'tenant') {
      const value = this.tenants.get(ref.id);
      return value === undefined ? null : this.#committed(ref, value, { id: ref.id });
    }
    const command = this.commands.get(ref.id);
    return command === undefined ? null : this.#committed(ref, 'dispatched', command);
  }

  #committed(ref: ActorRef, value: Committed['snapshot']['value'], fixed: object): Committed {
    return { ref, version: 1, since: 0, snapshot: { value, context: { fixed, live: {} }, status: 'active' } };
  }

  async #send(ref: ActorRef, event: MachineEvent): Promise<Reply> {
    const received = { ref, event };
    this.received.push(received);
    await this.commit(received);
    const committed = this.#find(ref);
    if (committed === null) throw new NoSuchActor(ref.id);
    const understood = ref.kind !== 'device' || !this.row(ref.id).revoked;
    const outputs = ref.kind === 'device' ? this.#judge(ref.id, event as DeviceEvent) : [];
    return { ...committed, understood, outputs, messagesDelivered: this.onMessageCommit(received) };
  }

  #judge(id: string, event: DeviceEvent): Output[] {
    const row = this.row(id);
    if (event.type === 'hello.received') {
      return [{ type: 'hello.accepted', lastSequence: row.window.highest, keyVersion: row.device.keyVersion }];
    }
    if (!('header' in event)) return [];
    const { messageId } = event.header;
    const sequenceNumber = event.header.sequenceNumber ?? row.window.highest + 1;
    const verdict = judgeSequence(row.window, sequenceNumber, messageId);
    if (verdict === 'repeat') return [{ type: 'message.accepted', repeat: true }];
    if (verdict === 'reused') return [{ type: 'message.refused', code: 'SEQUENCE_REUSED' }];
    if (verdict === 'too_old') return [{ type: 'message.refused', code: 'SEQUENCE_TOO_OLD' }];
    row.window = acceptSequence(row.window, sequenceNumber, messageId);
    if (event.type === 'message.rejected') return [{ type: 'message.refused', code: event.code }];
    if (event.type === 'heartbeat.received') {
      const { telemetry = {}, battery } = event;
      const { tenantId } = row.device;
      const { at, header } = event;
      const times = { deviceAt: header.deviceAt ?? at, at };
      const reported: Output = { type: 'device.telemetry', tenantId, deviceId: id, telemetry, ...times };
      return [
        { type: 'message.accepted', repeat: false },
        { ...reported, ...(battery !== undefined && { battery }) },
      ];
    }
    if (event.type === 'ack.reported' && !event.known) return [{ type: 'message.refused', code: 'UNKNOWN_COMMAND' }];
    return [{ type: 'message.accepted', repeat: false }];
  }

  /** CONNECT tokens that the store has marked as used; they outlive an edge. */
  readonly usedTokens = new Set<string>();
  /** A test may delay marking them here, or throw. */
  marked: () => Promise<void> = async () => {};
  readonly invalidations = makeLocalInvalidationBus();
  readonly services: Services = {
    clock: this.clock,
    newId: () => randomUUID(),
    invalidations: this.invalidations,
    open: (sealed: string) => sealed.replace('sealed ', ''),
    settings: { cloudPublicKeys: ['cloud-key'] },
    store: {
      sessionTokens: {
        markUsed: async (tokens: { deviceId: string; timestamp: number; nonce: string }[]) => {
          await this.marked();
          const first = tokens.map(({ deviceId, timestamp, nonce }) => `${deviceId}.${timestamp}.${nonce}`);
          const fresh = new Set(first.filter((token) => !this.usedTokens.has(token)));
          for (const token of fresh) this.usedTokens.add(token);
          return fresh;
        },
      },
      devices: {
        validKeys: async (ids: string[]) => {
          this.lookups.push(ids.length);
          await this.lookup();
          return new Map(ids.map((id) => [id, this.rows.get(id)?.keys ?? []]));
        },
      },
    },
    actors: {
      send: (ref: ActorRef, event: MachineEvent) => this.#send(ref, event),
      post: (ref: ActorRef, event: MachineEvent, waiter: ReplyHandler) => {
        this.#send(ref, event).then(
          (reply) => waiter.resolve(reply),
          (error) => waiter.reject(error),
        );
      },
      read: async (ref: ActorRef) => {
        if (ref.kind === 'command') await this.reads();
        return this.#find(ref);
      },
      readAll: async (_kind: string, ids: string[]) => {
        const all = new Map<string, Committed>();
        for (const id of ids) {
          const found = this.#device(id);
          if (found !== null) all.set(id, found);
        }
        return all;
      },
      owns: () => true,
      peek: (ref: ActorRef) => (this.inMemory ? (this.#find(ref) ?? undefined) : undefined),
      subscribe: (type: VolatileOutput['type'], sink: VolatileOutputHandler) => {
        const subscribers = this.#subscribers.get(type) ?? new Set();
        this.#subscribers.set(type, subscribers.add(sink as (output: VolatileOutput) => void));
        return () => subscribers.delete(sink as (output: VolatileOutput) => void);
      },
      subscribeTransitions: (watch: Parameters<Actors['subscribeTransitions']>[0]) => {
        this.#watchers.add(watch);
        return () => this.#watchers.delete(watch);
      },
    },
    deviceActivity: new DeviceActivityLog({ now: () => 0 }),
    sessions: {
      open: (session: LiveSession) => {
        const old = this.live.get(session.deviceId);
        this.live.set(session.deviceId, session);
        return old;
      },
      markSubscribed: async (deviceId: string, sessionId: string) => {
        this.subscriptions.push(sessionId);
        await this.onSubscribed(deviceId, sessionId);
      },
      close: (deviceId: string, sessionId: string) => {
        this.closed.push(sessionId);
        if (this.live.get(deviceId)?.sessionId === sessionId) this.live.delete(deviceId);
      },
      recordActivity: (deviceId: string, { battery }: { battery?: number }) => {
        this.seen.push({ deviceId, ...(battery === undefined ? {} : { battery }) });
      },
      recordConnection: () => {},
      recordRefusal: () => {
        this.refusals += 1;
      },
    },
  } as unknown as Services;
}
