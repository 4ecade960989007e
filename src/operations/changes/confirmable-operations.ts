import type { ZodType } from 'zod';
import { registerManifest, updateManifest } from '../devices/manifests.ts';
import type { Operation } from '../operation.ts';

/** The services that confirmable operations need, for the operations that run them after a confirmation. */
export const confirmableNeeds = ['actors', 'audit', 'clock', 'flags', 'locks', 'manifests', 'newId', 'store'] as const;

export type ConfirmableOperation = Operation<ZodType, ZodType, (typeof confirmableNeeds)[number]>;

/** The operations that call `applyOrRequest`, by name. */
export const confirmableOperations: Readonly<Record<string, ConfirmableOperation>> = Object.fromEntries(
  [registerManifest, updateManifest].map((one: ConfirmableOperation) => [one.name, one]),
);
