import type { Clock } from '../domain/clock.ts';
import { isFinalCommandStatus } from '../domain/command.ts';
import type { Log } from '../domain/log.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import { administrationOf } from '../machines/device-record.ts';
import type { Store } from '../store/contract.ts';
import { NoSuchActor, NotOwner, Quarantined } from './contract.ts';
import { toMachineEvent } from './envelope.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { RuntimeLimits } from './runtime-limits.ts';
import type { Supervisor } from './supervisor.ts';

const RETRY_MS: Milliseconds = 1_000;
/** Maximum number of quarantined commands listed in one log line. */
const MAX_LISTED = 20;

/**
 * Cancels commands that were created concurrently with the revocation of their device. A revocation is delivered to the
 * commands of the device that are committed by then (`commands.tell`). A command that another batch in flight decided
 * on the device's earlier state commits later: it is cancelled on its release or, if a crash or an unknown commit
 * outcome lost the release, by a sweep of the open commands of revoked devices. Plans need no such sweep: each step is
 * resolved on the tenant's current state, and is held back while the tenant is suspended.
 */
export class RevokedDeviceCommands {
  readonly #supervisor: Supervisor;
  readonly #commands: Store['commands'];
  readonly #clock: Clock;
  readonly #limits: Pick<RuntimeLimits, 'sweepMs'>;
  readonly #log: Log;
  readonly #shards: ShardOwnership;
  /** Repeats a sweep that failed. */
  #retry: NodeJS.Timeout | undefined;
  /** Sweeps again after the last commit with an unknown outcome. */
  #secondSweep: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(parts: {
    supervisor: Supervisor;
    store: Pick<Store, 'commands'>;
    clock: Clock;
    limits: Pick<RuntimeLimits, 'sweepMs'>;
    log: Log;
    shards: ShardOwnership;
  }) {
    this.#supervisor = parts.supervisor;
    this.#commands = parts.store.commands;
    this.#clock = parts.clock;
    this.#limits = parts.limits;
    this.#log = parts.log;
    this.#shards = parts.shards;
    parts.supervisor.subscribe('command.changed', ({ status, deviceId, commandId }) => {
      if (isFinalCommandStatus(status)) return;
      const device = parts.supervisor.peek({ kind: 'device', id: deviceId });
      if (device === undefined || administrationOf(device.snapshot) === 'active') return;
      void this.#cancelAll([{ deviceId, commandId }]);
    });
  }

  /** Cancels the open commands of all revoked devices. Never rejects: it is retried if the store does not answer. */
  async sweep(): Promise<void> {
    try {
      await this.#cancelAll(await this.#commands.openOnRevokedDevices(this.#shards.list));
    } catch (error) {
      this.#log.warn({ err: error }, 'revoked-device commands: open commands of revoked devices not read; retrying');
      clearTimeout(this.#retry);
      this.#retry = this.#sweepAfter(RETRY_MS);
    }
  }

  /** Sweeps immediately and after `sweepMs`: a commit with unknown outcome may still run in the database. */
  sweepTwice(): void {
    void this.sweep();
    clearTimeout(this.#secondSweep);
    this.#secondSweep = this.#sweepAfter(this.#limits.sweepMs);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#secondSweep);
  }

  #sweepAfter(ms: Milliseconds): NodeJS.Timeout | undefined {
    return this.#stopped ? undefined : setTimeout(() => void this.sweep(), ms).unref();
  }

  async #cancelAll(open: readonly { deviceId: Uuid; commandId: Uuid }[]): Promise<void> {
    const cancelled = await Promise.all(open.map((command) => this.#cancel(command)));
    const quarantined = open.filter((_, at) => !cancelled[at]).map(({ commandId }) => commandId);
    if (quarantined.length > 0)
      this.#log.warn(
        {
          commands: quarantined.slice(0, MAX_LISTED),
          count: quarantined.length,
          release: 'POST /v1/actors/command/ID/release',
        },
        'revoked-device commands: open commands of revoked devices are quarantined; releasing them cancels them',
      );
  }

  /** Cancels a command. False if it cannot be cancelled because its actor is quarantined. */
  async #cancel({ deviceId, commandId }: { deviceId: Uuid; commandId: Uuid }): Promise<boolean> {
    const event = toMachineEvent({ type: 'device.revoked', deviceId }, this.#clock.now());
    try {
      await this.#supervisor.sendWith({ kind: 'command', id: commandId }, event, { noTimeout: true });
    } catch (error) {
      if (error instanceof Quarantined) return false;
      if (!(error instanceof NoSuchActor || error instanceof NotOwner))
        this.#log.warn(
          { err: error, command: commandId, device: deviceId },
          'revoked-device commands: command of a revoked device not cancelled',
        );
    }
    return true;
  }
}
