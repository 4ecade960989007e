import type { JsonObject } from './values.ts';

export const safetyClasses = ['NORMAL', 'CRITICAL', 'RESTRICTED'] as const;
export type SafetyClass = (typeof safetyClasses)[number];

/** One thing a device can do (specification §2, contract §5). Field names are the wire's. */
export interface Capability {
  id: number;
  action: string;
  description: string;
  safetyClass: SafetyClass;
  /** A JSON Schema in the contract's subset; its root is an object. */
  paramSchema: JsonObject;
  supportsDryRun: boolean;
  /** A template of the state that proves the action; `{"$param": "level"}` stands for a parameter. */
  expectedState?: JsonObject;
  verify_within_s?: number;
}

export interface Manifest {
  deviceId: string;
  tenantId: string;
  category: string | null;
  /** Counts from 1; a command remembers the version it was judged by. */
  version: number;
  /** False while the device has the automatic manifest of its category. */
  own: boolean;
  capabilities: Capability[];
}
