import { type Clock, systemClock } from '../../domain/clock.ts';
import type { Json, JsonObject, Milliseconds } from '../../domain/values.ts';
import type { HeartbeatPayload } from '../../protocol/payloads.ts';
import type { CommandHandler } from '../command-runner.ts';
import { type Firmware, type FirmwareWanted, fetchFirmware } from '../firmware/fetch.ts';

/** Environment of a simulated device. Tests pass a deterministic one whose pauses take no time. */
export interface SimulationEnvironment {
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  /** Waits, for example for a motor; rejects when `signal` is aborted. */
  pause: (ms: Milliseconds, signal: AbortSignal) => Promise<void>;
  /** Downloads firmware; throws if the checksum does not match. */
  fetchFirmware: (wanted: FirmwareWanted) => Promise<Firmware>;
}

/** A simulated device: its initial state, command handlers and behaviour over time. */
export interface SimulatedDevice {
  name: string;
  /** Ends with the category (`smart_light`), so that registration assigns the category's manifest. */
  deviceType: string;
  firmware: string;
  /** Current state; `commands` and `tick` mutate it and return the changed properties. */
  readonly state: JsonObject;
  commands: Record<string, CommandHandler>;
  heartbeat?: () => HeartbeatPayload;
  /** Manual operation without the service, such as opening a door; each returns the changed properties. */
  manualActions?: Record<string, () => JsonObject>;
  /** Continues what only increases, such as a meter, from a state of its past. */
  continueFrom?: (past: JsonObject) => void;
  /** Simulates the seconds since the last call; returns the properties to report, or null. */
  tick: (elapsedS: number) => JsonObject | null;
}

export function realEnvironment(random: () => number = Math.random): SimulationEnvironment {
  return { clock: systemClock, random, pause, fetchFirmware };
}

/** Updates properties of a state and returns them for a report. */
export function applyChange<State extends JsonObject>(state: State, patch: Partial<State> & JsonObject): JsonObject {
  Object.assign(state, patch);
  return { ...patch };
}

/** `applyChange` for a command handler: returns the change as a `CommandResult`. */
export function applyCommandChange<State extends JsonObject>(
  state: State,
  patch: Partial<State> & JsonObject,
): { state: JsonObject } {
  return { state: applyChange(state, patch) };
}

/** Reads a parameter of a command; throws, which fails the command, if it is missing or of another type. */
export function requireParam(params: JsonObject, name: string, type: 'number'): number;
export function requireParam(params: JsonObject, name: string, type: 'string'): string;
export function requireParam(params: JsonObject, name: string, type: 'boolean'): boolean;
export function requireParam(params: JsonObject, name: string, type: 'number' | 'string' | 'boolean'): Json {
  const value = params[name];
  if (value === undefined || typeof value !== type) throw new Error(`${name} must be a ${type}`);
  return value;
}

export const roundTo = (value: number, digits: number): number => Number(value.toFixed(digits));

function pause(ms: Milliseconds, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(new Error('interrupted'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    }, ms);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}
