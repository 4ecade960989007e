import type { HistoryMode } from './history/rules.ts';
import type { JsonObject } from './values.ts';

export const safetyClasses = ['NORMAL', 'CRITICAL', 'RESTRICTED'] as const;
export type SafetyClass = (typeof safetyClasses)[number];

/** An action that a device supports (specification §2, contract §5), with the wire's field names. */
export interface Capability {
  id: number;
  action: string;
  description: string;
  safetyClass: SafetyClass;
  /** A JSON Schema in the contract's subset, for an object. */
  paramSchema: JsonObject;
  supportsDryRun: boolean;
  /** Template of the state that proves the action; `{"$param": "level"}` refers to a parameter. */
  expectedState?: JsonObject;
  verify_within_s?: number;
  /** Default `timeout_s` of its commands; without it, that of the registry's action of this name. */
  timeout_s?: number;
  /** Units of reported properties, by path (`color.hue`); those of parameters are `unit` in their schemas. */
  units?: Record<string, string>;
}

/** Name, unit and history of a reported property. */
export interface ManifestProperty {
  /** Its name for people. */
  label?: string;
  unit?: string;
  /** Which samples the history of the device keeps; `every` by default. */
  history?: HistoryMode;
  /** With `change`: numbers are kept that differ from the last one kept by more. */
  deadband?: number;
}

/**
 * An action above NORMAL, or with `writeOnly` parameters, that an earlier version of a manifest had. If it is added again,
 * its class is the floor, and its parameters and its preview are compared.
 */
export interface RemovedAction extends Pick<Capability, 'action' | 'safetyClass' | 'supportsDryRun' | 'expectedState'> {
  /** Null if it and `expectedState` were too large to be remembered: then every schema counts as wider. */
  paramSchema: JsonObject | null;
}

export interface Manifest {
  deviceId: string;
  tenantId: string;
  category: string | null;
  /** Counts from 1. A command stores the version that it was checked against. */
  version: number;
  /** False for the automatic manifest of the device's category. */
  own: boolean;
  capabilities: Capability[];
  /** By path, as in the history: `climate.temperature`, or `$telemetry.rssi`. */
  properties?: Record<string, ManifestProperty>;
  /** Oldest first. Never shown as a part of the manifest. */
  removed?: RemovedAction[];
}
