import { type Clock, systemClock } from '../../domain/clock.ts';
import type { Json, JsonObject, Milliseconds } from '../../domain/values.ts';
import type { HeartbeatPayload } from '../../protocol/payloads.ts';
import type { CommandHandler } from '../command-runner.ts';
import { type Firmware, type FirmwareWanted, fetchFirmware } from '../firmware/fetch.ts';

/** What stands around a simulated device. Tests bring one in which nothing takes time and nothing is by chance. */
export interface SimulationEnvironment {
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  /** Lets time pass, as for a motor; rejects when `signal` is aborted. */
  pause: (ms: Milliseconds, signal: AbortSignal) => Promise<void>;
  /** Fetches and verifies firmware; throws where it is not what the command names. */
  fetchFirmware: (wanted: FirmwareWanted) => Promise<Firmware>;
}

/** A device that is not there: how it begins, what it can do, and what becomes of it by itself. */
export interface SimulatedDevice {
  name: string;
  /** Ends in its category, so that registration gives it that category's manifest. */
  deviceType: string;
  firmware: string;
  /** The live state; `commands` and `tick` change it and answer what they changed. */
  readonly state: JsonObject;
  commands: Record<string, CommandHandler>;
  heartbeat?: () => HeartbeatPayload;
  /** What people do to it without asking the service; each answers what it changed. */
  manualActions?: Record<string, () => JsonObject>;
  /** What has changed by itself in the seconds since the last call; null when nothing worth a report. */
  tick: (elapsedS: number) => JsonObject | null;
}

export function realEnvironment(random: () => number = Math.random): SimulationEnvironment {
  return { clock: systemClock, random, pause, fetchFirmware };
}

/** Sets properties of a state and answers what to report of it. */
export function applyChange<State extends JsonObject>(state: State, patch: Partial<State> & JsonObject): JsonObject {
  Object.assign(state, patch);
  return { ...patch };
}

/** As `change`, in the form that a command's handler answers. */
export function applyCommandChange<State extends JsonObject>(
  state: State,
  patch: Partial<State> & JsonObject,
): { state: JsonObject } {
  return { state: applyChange(state, patch) };
}

/** A parameter of a command; the command fails when it is not there or of another type. */
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
    const stopped = () => {
      clearTimeout(timer);
      reject(new Error('interrupted'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stopped);
      resolve();
    }, ms);
    if (signal.aborted) stopped();
    else signal.addEventListener('abort', stopped, { once: true });
  });
}
