import { commandDevice } from '../../../src/operations/commands/commands.ts';
import type { Operation } from '../../../src/operations/operation.ts';
import type { Flag } from '../../../src/services/flags.ts';

/** What the service said to callers and devices, and what they did: what the invariants are held against. */
export class Ledger {
  /** By `Idempotency-Key`. */
  readonly requests = new Map<string, Requested>();
  /** Commands that were answered 202, and their devices. */
  readonly commands = new Map<string, string>();
  readonly plans = new Set<string>();
  /** Who was to confirm a command, by its id; those whom the policy forbids are in it too. */
  readonly confirmations = new Map<string, Set<string>>();
  /** Command frames that left a process, by command. */
  readonly writes = new Map<string, number>();
  /** Devices whose revocation was answered, and whose reinstatement was not asked for since. */
  readonly shut = new Set<string>();
  /** When a device's last revocation was answered. */
  readonly shutAt = new Map<string, number>();
  /** When each command was requested, in true time. */
  readonly requestedAt = new Map<string, number>();
  /** `device version` of keys that do not open a session any more. */
  readonly endedKeys = new Set<string>();

  /** The state of each flag that its last answer named. */
  readonly flagsAnswered = new Map<Flag, boolean>();
  /** Request ids of attempts that were refused by a flag, a rate, a suspension or a role: nothing comes of them. */
  readonly refused = new Map<string, string>();
  /** Flags that an operator was told are set, each with a number of its own for each time. */
  readonly #flags = new Map<Flag, number>();
  #raised = 0;

  raise(flag: Flag): void {
    this.#flags.set(flag, ++this.#raised);
  }

  /** It is about to be taken back. */
  lower(flag: Flag): void {
    this.#flags.delete(flag);
  }

  /**
   * The flag that forbids an operation, with the number of its time; null where none does. A retry may be answered with what an
   * earlier attempt did before commands were disabled.
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
  /** The request ids of its tries. */
  tries: Set<string>;
  /** The body of its first success, as JSON. */
  answer: string | null;
}
