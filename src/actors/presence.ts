import { type Clock, elapsedOf } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { type ConnectionEvent, mergeConnectionEvents } from '../domain/connection-event.ts';
import type { Log } from '../domain/log.ts';
import { type OwnedShards, shardOf } from '../domain/shards.ts';
import type { Telemetry } from '../domain/telemetry.ts';
import { type EpochMs, SYSTEM, type Uuid } from '../domain/values.ts';
import type { CommandContext } from '../machines/command-types.ts';
import { CommitUnknown, type PresenceFlush, type Store, StoreUnavailable } from '../store/contract.ts';
import { collectRejections } from './collect-rejections.ts';
import { type DeviceSessions, type LiveSession, NoSuchActor, NotOwner, Overloaded, Quarantined } from './contract.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { RuntimeLimits } from './runtime-limits.ts';
import type { Supervisor } from './supervisor.ts';

const FLUSH_MS = 5_000;
const FLUSH_BATCH = 1_000;
const READY_RETRY_MS = 1_000;
/** Devices marked offline at a time: each of them may have to be loaded. */
const OFFLINE_BATCH = 500;

interface TrackedSession extends LiveSession {
  lastSeen: EpochMs;
  /** Monotonic milliseconds of the last message, so that clock corrections do not count as silence. */
  lastMessageAt: number;
  silent: boolean;
  battery?: number;
  telemetry?: Telemetry;
}

interface Unflushed {
  lastSeen: EpochMs;
  battery?: number;
  telemetry?: Telemetry;
  refusals?: number;
  /** Newest first. */
  connections?: readonly ConnectionEvent[];
  /** Last use of each session key, by version. */
  keys?: Map<number, EpochMs>;
}

/**
 * Device presence: the open sessions, and when each device was last seen. Only offline ↔ online is a commit;
 * `last_seen`, battery, telemetry, connection history and the count of rejected messages are flushed in batches, and a crash
 * may lose their last seconds.
 */
export class Presence implements DeviceSessions {
  readonly #sessions = new Map<Uuid, TrackedSession>();
  readonly #unflushed = new Map<Uuid, Unflushed>();
  /** Rows that flushes are writing, oldest first: not in `#unflushed`, and perhaps not in the store yet. */
  readonly #flushing = new Set<ReadonlyMap<Uuid, Unflushed>>();
  /** Devices to mark offline unless they reconnect, with the due time in monotonic milliseconds. */
  readonly #awaitingReconnect = new Map<Uuid, number>();
  /** Shards whose devices may have ended their sessions without being marked offline. */
  readonly #uncheckedShards = new Set<number>();
  #handle: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;

  readonly #supervisor: Supervisor;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #limits: RuntimeLimits;
  readonly #log: Log;
  readonly #shards: ShardOwnership;

  constructor(parts: {
    supervisor: Supervisor;
    store: Store;
    clock: Clock;
    limits: RuntimeLimits;
    log: Log;
    shards: ShardOwnership;
  }) {
    this.#supervisor = parts.supervisor;
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#limits = parts.limits;
    this.#log = parts.log;
    this.#shards = parts.shards;
    this.#supervisor.subscribe('device.presence', ({ deviceId, online, at }) =>
      this.recordConnection(deviceId, { at, event: online ? 'online' : 'offline' }),
    );
    // A command dispatched just before the subscription was granted would otherwise wait for the next session.
    this.#supervisor.subscribe('command.changed', ({ status, deviceId, commandId }) => {
      if (status !== 'dispatched') return;
      const session = this.#sessions.get(deviceId);
      if (!session?.subscribed) return;
      const command = this.#supervisor.peek<CommandContext>({ kind: 'command', id: commandId });
      if (command?.snapshot.context.live.delivery?.sessionId !== null) return;
      this.#sendSessionReady([commandId], session.sessionId).catch(() =>
        this.#retrySessionReady(deviceId, session.sessionId),
      );
    });
  }

  async start(): Promise<void> {
    await this.expectReconnects(this.#shards.list);
    this.#handle = setInterval(() => void this.tick(), FLUSH_MS);
    this.#handle.unref();
  }

  /** Schedules the offline check of devices that were online when the last owner of these shards ended. */
  async expectReconnects(shards: OwnedShards): Promise<void> {
    const until = elapsedOf(this.#clock) + this.#limits.reconnectGraceMs;
    for (const deviceId of await this.#onlineWithoutSession(shards)) this.#awaitingReconnect.set(deviceId, until);
  }

  /** Checks at the next `tick` which devices of these shards are still marked online: their unloading was given up. */
  shardsStayed(shards: Iterable<number>): void {
    for (const shard of shards) this.#uncheckedShards.add(shard);
  }

  /** Removes the sessions of shards that another node takes over, and writes what they have reported. */
  async leaveShards(shards: ReadonlySet<number>): Promise<void> {
    for (const [deviceId, session] of this.#sessions) {
      if (!shards.has(shardOf(session.tenantId))) continue;
      this.#sessions.delete(deviceId);
      this.#recordKeyUse(session);
    }
    await this.flush();
  }

  async stop(): Promise<void> {
    if (this.#handle) clearInterval(this.#handle);
    this.#handle = null;
    await this.#running;
    await this.flush();
  }

  open(session: LiveSession): LiveSession | undefined {
    const old = this.#sessions.get(session.deviceId);
    if (old) this.#recordKeyUse(old);
    const opened = { ...session, lastSeen: this.#clock.now(), lastMessageAt: elapsedOf(this.#clock), silent: false };
    this.#sessions.set(session.deviceId, opened);
    this.#recordKeyUse(opened);
    return old;
  }

  async markSubscribed(deviceId: Uuid, sessionId: string): Promise<void> {
    const session = this.#sessions.get(deviceId);
    if (session?.sessionId !== sessionId) return;
    session.subscribed = true;
    await this.#sendSessionReady(await this.#store.commands.deliverable(deviceId), sessionId);
  }

  close(deviceId: Uuid, sessionId: string): void {
    const session = this.#sessions.get(deviceId);
    if (session?.sessionId !== sessionId) return;
    this.#sessions.delete(deviceId);
    this.#recordKeyUse(session);
    void this.#markOffline([deviceId]);
  }

  get(deviceId: Uuid): LiveSession | undefined {
    return this.#sessions.get(deviceId);
  }

  count(): number {
    return this.#sessions.size;
  }

  sizes(): CollectionSizes {
    return {
      presence_sessions: this.#sessions.size,
      presence_unflushed: this.#unflushed.size,
      presence_flushing: this.#flushing.size,
      presence_returning: this.#awaitingReconnect.size,
    };
  }

  recordActivity(deviceId: Uuid, activity: { at: EpochMs; battery?: number; telemetry?: Telemetry }): void {
    const session = this.#sessions.get(deviceId);
    if (session) {
      session.lastSeen = activity.at;
      session.lastMessageAt = elapsedOf(this.#clock);
      session.silent = false;
      recordReported(session, activity);
    }
    let row = this.#unflushed.get(deviceId);
    if (row) row.lastSeen = activity.at;
    else {
      row = { lastSeen: activity.at };
      this.#unflushed.set(deviceId, row);
    }
    recordReported(row, activity);
  }

  recordConnection(deviceId: Uuid, event: ConnectionEvent): void {
    const row = this.#unflushed.get(deviceId) ?? { lastSeen: 0 };
    this.#unflushed.set(deviceId, row);
    row.connections = mergeConnectionEvents([event], row.connections ?? []);
  }

  connections(deviceId: Uuid): readonly ConnectionEvent[] {
    return this.#latest(deviceId)?.connections ?? [];
  }

  recordRefusal(deviceId: Uuid): void {
    const row = this.#unflushed.get(deviceId);
    if (row) row.refusals = (row.refusals ?? 0) + 1;
    else this.#unflushed.set(deviceId, { lastSeen: 0, refusals: 1 });
  }

  lastSeen(deviceId: Uuid): EpochMs | undefined {
    return this.#unflushed.get(deviceId)?.lastSeen || this.#sessions.get(deviceId)?.lastSeen;
  }

  battery(deviceId: Uuid): number | undefined {
    return this.#latest(deviceId)?.battery ?? this.#sessions.get(deviceId)?.battery;
  }

  telemetry(deviceId: Uuid): Telemetry {
    return { ...this.#sessions.get(deviceId)?.telemetry, ...this.#latest(deviceId)?.telemetry };
  }

  /** What the store may not have yet. */
  #latest(deviceId: Uuid): Unflushed | undefined {
    let latest = this.#unflushed.get(deviceId);
    for (const rows of [...this.#flushing].reverse()) {
      const row = rows.get(deviceId);
      if (row) latest = mergeUnflushed(row, latest);
    }
    return latest;
  }

  keysUsed(deviceId: Uuid): ReadonlyMap<number, EpochMs> {
    const used = new Map(this.#unflushed.get(deviceId)?.keys);
    const session = this.#sessions.get(deviceId);
    if (session) used.set(session.keyVersion, session.lastSeen);
    return used;
  }

  /** A session uses its key until its last message. */
  #recordKeyUse({ deviceId, keyVersion, lastSeen }: LiveSession & { lastSeen: EpochMs }): void {
    const row = this.#unflushed.get(deviceId) ?? { lastSeen: 0 };
    this.#unflushed.set(deviceId, row);
    row.keys ??= new Map();
    row.keys.set(keyVersion, lastSeen);
  }

  /** Marks silent devices and those that did not reconnect offline, then flushes. */
  tick(): Promise<void> {
    this.#running ??= this.#runTick().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async #runTick(): Promise<void> {
    const now = elapsedOf(this.#clock);
    const disconnected: Uuid[] = [];
    for (const session of this.#sessions.values()) {
      if (session.silent || now - session.lastMessageAt < this.#limits.silenceMs) continue;
      session.silent = true;
      disconnected.push(session.deviceId);
    }
    for (const [deviceId, until] of this.#awaitingReconnect) {
      if (now < until) continue;
      this.#awaitingReconnect.delete(deviceId);
      disconnected.push(deviceId);
    }
    void this.#markAllOffline(disconnected);
    await this.#checkShards();
    await this.flush();
  }

  async #checkShards(): Promise<void> {
    const shards = [...this.#uncheckedShards];
    if (shards.length === 0) return;
    this.#uncheckedShards.clear();
    const until = elapsedOf(this.#clock) + this.#limits.reconnectGraceMs;
    try {
      for (const deviceId of await this.#onlineWithoutSession(shards)) {
        // The unloading of a busy shard is tried repeatedly: that must not postpone the check.
        if (!this.#awaitingReconnect.has(deviceId)) this.#awaitingReconnect.set(deviceId, until);
      }
    } catch (error) {
      this.shardsStayed(shards);
      this.#log.warn({ err: error, shards: shards.length }, 'presence: online devices of shards not read; retrying');
    }
  }

  async #onlineWithoutSession(shards: OwnedShards): Promise<Uuid[]> {
    return (await this.#store.devices.online(shards)).filter((deviceId) => !this.#sessions.has(deviceId));
  }

  /** Writes the activity since the last flush; activity during the flush is left to the next one. */
  async flush(): Promise<void> {
    for (let left = this.#unflushed.size; left > 0; left -= FLUSH_BATCH) {
      const rows = new Map<Uuid, Unflushed>();
      for (const [deviceId, row] of this.#unflushed) {
        rows.set(deviceId, row);
        this.#unflushed.delete(deviceId);
        if (rows.size === Math.min(left, FLUSH_BATCH)) break;
      }
      this.#flushing.add(rows);
      try {
        await this.#store.devices.flushPresence([...rows].map(([deviceId, row]) => this.#toFlushRow(deviceId, row)));
      } catch (error) {
        this.#log.warn({ err: error }, 'presence flush failed; retrying');
        for (const [deviceId, row] of rows) {
          const unwritten = error instanceof CommitUnknown ? withoutRefusals(row) : row;
          this.#unflushed.set(deviceId, mergeUnflushed(unwritten, this.#unflushed.get(deviceId)));
        }
        return;
      } finally {
        this.#flushing.delete(rows);
      }
    }
  }

  #toFlushRow(deviceId: Uuid, { keys: used, ...row }: Unflushed): PresenceFlush {
    const keys = new Map(used);
    const session = this.#sessions.get(deviceId);
    if (session) keys.set(session.keyVersion, session.lastSeen);
    if (keys.size === 0) return { deviceId, ...row };
    return { deviceId, ...row, keys: [...keys].map(([version, usedAt]) => ({ version, usedAt })) };
  }

  /** In batches: a hundred thousand commits at once would block the store for all others. */
  async #markAllOffline(deviceIds: readonly Uuid[]): Promise<void> {
    for (let from = 0; from < deviceIds.length; from += OFFLINE_BATCH) {
      await this.#markOffline(deviceIds.slice(from, from + OFFLINE_BATCH).filter((id) => this.#isDisconnected(id)));
    }
  }

  #isDisconnected(deviceId: Uuid): boolean {
    return this.#sessions.get(deviceId)?.silent ?? true;
  }

  async #markOffline(deviceIds: readonly Uuid[]): Promise<void> {
    const rejected = await collectRejections(deviceIds, (id) =>
      this.#supervisor.send({ kind: 'device', id }, { type: 'presence.lost', at: this.#clock.now(), by: SYSTEM }),
    );
    const failed = rejected.filter(({ reason }) => !(reason instanceof NoSuchActor || reason instanceof NotOwner));
    const [first] = failed;
    if (first === undefined) return;
    const now = elapsedOf(this.#clock);
    for (const { item: deviceId, reason } of failed) {
      this.#awaitingReconnect.set(deviceId, reason instanceof Quarantined ? now + this.#limits.quarantineRetryMs : now);
    }
    this.#log.warn(
      { err: first.reason, deviceId: first.item, devices: failed.length },
      'presence: devices not marked offline; retrying',
    );
  }

  /** Throws if the store or the runtime is overloaded or unavailable; the caller retries. */
  async #sendSessionReady(commandIds: readonly Uuid[], sessionId: string): Promise<void> {
    await Promise.all(
      commandIds.map((id) =>
        this.#supervisor
          .send({ kind: 'command', id }, {
            type: 'session.ready',
            at: this.#clock.now(),
            by: SYSTEM,
            sessionId,
          } as never)
          .catch((error) => {
            if (isRetryable(error)) throw error;
            if (!(error instanceof NoSuchActor))
              this.#log.warn(
                { err: error, commandId: id },
                'presence: pending command not sent; waiting for the next session',
              );
          }),
      ),
    );
  }

  #retrySessionReady(deviceId: Uuid, sessionId: string): void {
    setTimeout(() => {
      this.markSubscribed(deviceId, sessionId).catch(() => this.#retrySessionReady(deviceId, sessionId));
    }, READY_RETRY_MS).unref();
  }
}

interface Reported {
  battery?: number;
  telemetry?: Telemetry;
}

/** Keeps what the message does not report. Without a new object for messages that report nothing, which are most. */
function recordReported(to: Reported, { battery, telemetry }: Reported): void {
  if (battery !== undefined) to.battery = battery;
  if (telemetry !== undefined) to.telemetry = { ...to.telemetry, ...telemetry };
}

/** A flush that may have happened must not count refusals again; writing everything else again changes nothing. */
const withoutRefusals = ({ refusals: _, ...row }: Unflushed): Unflushed => row;

/** Merges activity that was not written with the activity since. */
function mergeUnflushed(before: Unflushed, since: Unflushed | undefined): Unflushed {
  if (since === undefined) return before;
  const merged: Unflushed = { ...before, ...since, lastSeen: since.lastSeen || before.lastSeen };
  if (before.refusals && since.refusals) merged.refusals = before.refusals + since.refusals;
  if (before.telemetry && since.telemetry) merged.telemetry = { ...before.telemetry, ...since.telemetry };
  if (before.connections && since.connections)
    merged.connections = mergeConnectionEvents(since.connections, before.connections);
  if (before.keys && since.keys) merged.keys = new Map([...before.keys, ...since.keys]);
  return merged;
}

const isRetryable = (error: unknown): boolean =>
  error instanceof StoreUnavailable || error instanceof CommitUnknown || error instanceof Overloaded;
