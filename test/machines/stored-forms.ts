import { createHash } from 'node:crypto';
import { z } from 'zod';
import { DATA_LEVEL } from '../../src/domain/data-level.ts';
import { allDefinitions } from '../../src/machines/versions.ts';
import { declaredStates } from './random-walk.ts';

/** What a build writes into the rows of actors, and so what another build has to read. */
export interface StoredForms {
  dataLevel: number;
  /** By kind and version of the machine. */
  machines: Record<string, { states: string[]; timers: string[]; contextDigest: string }>;
}

/** Those of this build. */
export const storedForms = (): StoredForms => ({
  dataLevel: DATA_LEVEL,
  machines: Object.fromEntries(
    allDefinitions().map((definition) => [
      `${definition.kind} ${definition.version}`,
      {
        states: declaredStates(definition).sort(),
        timers: definition.machine.events.filter((name: string) => name.startsWith('xstate.after.')).sort(),
        contextDigest: digestOf(z.toJSONSchema(definition.storedSchema, { unrepresentable: 'any' })),
      },
    ]),
  ),
});

const digestOf = (schema: object): string => createHash('sha256').update(JSON.stringify(schema)).digest('hex');
