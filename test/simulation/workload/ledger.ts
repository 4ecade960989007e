import { commandDevice } from '../../../src/operations/commands/commands.ts';
import type { Operation } from '../../../src/operations/operation.ts';
import type { Flag } from '../../../src/services/flags.ts';

/**
 * Records the responses and messages of the service and the actions of its clients, as a reference for the invariants.
 */
export class Ledger {
  /** By `Idempotency-Key`. */
  readonly requests = new Map<string, Requested>();
  /** Commands that were answered with 202, and their devices. */
  readonly commands = new Map<string, string>();
  readonly plans = new Set<string>();
  /** The users who tried to confirm a command, by its id, including those that the policy excludes. */
  readonly confirmations = new Map<string, Set<string>>();
  /** Command packets that a process sent, by command. */
  readonly writes = new Map<string, number>();
  /** Devices whose revocation was answered, without a later request to reinstate them. */
  readonly shut = new Set<string>();
  /** When a device's last revocation was answered. */
  readonly shutAt = new Map<string, number>();
  /** When each command was requested, in true time. */
  readonly requestedAt = new Map<string, number>();
  /** `device version` of keys that no longer open a session. */
  readonly endedKeys = new Set<string>();

  /** The state of each flag in its last response. */
  readonly flagsAnswered = new Map<Flag, boolean>();
  /** Request ids of attempts refused by a flag, a rate limit, a suspension or a role: they must have no effect. */
  readonly refused = new Map<string, string>();
  /** Flags that are set according to a response, with a number for each time. */
  readonly #flags = new Map<Flag, number>();
  #raised = 0;

  raise(flag: Flag): void {
    this.#flags.set(flag, ++this.#raised);
  }

  /** Called before the flag is reset. */
  lower(flag: Flag): void {
    this.#flags.delete(flag);
  }

  /**
   * The flag that refuses an operation, with the number of its time; null if none does. A retry can get the response of
   * an attempt made before commands were disabled.
   */
  forbids({ changes, inMaintenance, stoppedBy, name }: Operation, isRetry: boolean): string | null {
    const flags: Flag[] = changes && !inMaintenance ? ['maintenance_mode'] : [];
    if (stoppedBy !== undefined) flags.push(stoppedBy);
    if (name === commandDevice.name && !isRetry) flags.push('commands_disabled');
    const flag = flags.find((one) => this.#flags.has(one));
    return flag === undefined ? null : `${flag} (${this.#flags.get(flag)})`;
  }

  revoked(deviceId: string, at: number): void {
    this.shut.add(deviceId);
    this.shutAt.set(deviceId, at);
  }

  endKeysBelow(deviceId: string, version: number): void {
    for (let ended = 1; ended < version; ended++) this.endedKeys.add(`${deviceId} ${ended}`);
  }

  confirms(commandId: string, person: string): void {
    const all = this.confirmations.get(commandId);
    if (all === undefined) this.confirmations.set(commandId, new Set([person]));
    else all.add(person);
  }
}

export interface Requested {
  operation: string;
  /** The request ids of its attempts. */
  tries: Set<string>;
  /** The body of its first success, as JSON. */
  answer: string | null;
}
