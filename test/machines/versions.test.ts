import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../src/domain/values.ts';
import type { ActorKind } from '../../src/machines/outputs.ts';
import { actorKinds } from '../../src/machines/outputs.ts';
import { currentDefinition, definitionFor } from '../../src/machines/versions.ts';
import { flatContext } from '../support/stored-context.ts';
import { Driven } from './machine-driver.ts';
import { declaredStates, statesIn } from './random-walk.ts';

/**
 * Rows as a released version of a machine wrote them, with the running timers. Do not regenerate them: such rows exist
 * in deployments.
 */
interface Kept {
  value: Json;
  context: JsonObject;
  timers: `xstate.after.${string}`[];
}

const folder = new URL('./fixtures/', import.meta.url);
const shipped = readdirSync(folder).map((file) => {
  const [kind, version] = file.replace('.json', '').split('-');
  const rows: Kept[] = JSON.parse(readFileSync(new URL(file, folder), 'utf8'));
  return { kind: kind as ActorKind, version: Number(version), rows };
});

describe.each(shipped)('rows stored by version $version of the $kind machine', ({ kind, version, rows }) => {
  const definition = definitionFor(kind, version);

  it('can be loaded, and are stored the same again', () => {
    for (const { value, context } of rows) {
      const snapshot = definition.machine.resolveState({
        value: value as never,
        context: definition.fromStored(context) as never,
      });
      expect(snapshot.value).toEqual(value);
      expect(JSON.parse(JSON.stringify(flatContext(definition.toStored(snapshot.context))))).toEqual(context);
    }
  });

  it('exist for every state that can be stored', () => {
    const declared = declaredStates(definition);
    const kept = new Set(rows.flatMap(({ value }) => statesIn(value)));
    // An actor is not stored before its creating event.
    const unstored = ['unregistered', 'lifecycle.unregistered', 'administration.unregistered', 'lifecycle.submitted'];
    expect(declared.filter((path) => !kept.has(path) && !unstored.includes(path))).toEqual([]);
  });

  it('have timers that their states still handle', () => {
    for (const { value, context, timers } of rows) {
      for (const type of timers) {
        const driven = new Driven(definition);
        driven.resume(value, context);
        expect(driven.send({ type, at: 4_000_000_000_000 }).same, type).toBe(false);
      }
    }
  });
});

describe('the registry of machines', () => {
  it('has a fixture of the version for new actors', () => {
    const kept = shipped.map(({ kind, version }) => `${kind} ${version}`);
    for (const kind of actorKinds) expect(kept).toContain(`${kind} ${currentDefinition(kind).version}`);
  });

  it('uses the newest version for new actors', () => {
    for (const kind of actorKinds) {
      const current = currentDefinition(kind);
      expect(current.kind).toBe(kind);
      expect(definitionFor(kind, current.version)).toBe(current);
    }
  });

  it('names a missing version', () => {
    expect(() => definitionFor('device', 0)).toThrow("machine 'device' has no version 0 in this build");
    expect(() => definitionFor('plan', 99)).toThrow(RangeError);
    expect(() => currentDefinition('wish' as never)).toThrow("machine 'wish' does not exist in this build");
  });
});
