import pg from 'pg';
import { describe, expect, it } from 'vitest';
import {
  type DriverClasses,
  missingDriverParts,
  requireDriverParts,
} from '../../../src/store/postgres/driver-parts.ts';

const driver: DriverClasses = pg;
const base = (name: keyof DriverClasses) => driver[name] as new (...args: unknown[]) => object;

describe('the parts of the driver that its types do not declare', () => {
  it('are in the installed version', () => {
    expect(missingDriverParts(driver)).toEqual([]);
    expect(() => requireDriverParts()).not.toThrow();
  });

  it.each([
    ['Query', 'submit'],
    ['Query', 'handleDataRow'],
    ['Query', 'handleCommandComplete'],
    ['Query', 'requiresPreparation'],
    ['Connection', 'bind'],
    ['Connection', 'execute'],
  ] as const)('are named if they are missing: %s.prototype.%s', (name, method) => {
    class Changed extends base(name) {}
    Object.defineProperty(Changed.prototype, method, { value: undefined });
    expect(missingDriverParts({ ...{ Query: driver.Query, Connection: driver.Connection }, [name]: Changed })).toEqual([
      `${name}.prototype.${method}`,
    ]);
  });

  it('are named if a class, the stream or the query mode is missing', () => {
    class WithoutStream extends base('Connection') {
      stream = {};
    }
    class Simple extends base('Query') {
      requiresPreparation() {
        return false;
      }
    }
    expect(missingDriverParts({ Query: undefined, Connection: driver.Connection })).toEqual(['Query']);
    expect(missingDriverParts({ Query: driver.Query, Connection: WithoutStream })).toEqual([
      'Connection.stream.cork',
      'Connection.stream.uncork',
      'Connection.stream.destroy',
    ]);
    expect(missingDriverParts({ Query: Simple, Connection: driver.Connection })).toEqual(["queryMode: 'extended'"]);
    expect(() => requireDriverParts({ Query: undefined, Connection: driver.Connection })).toThrow(
      /lacks Query, which row-level security needs\. Install the version that package\.json names/,
    );
  });
});
