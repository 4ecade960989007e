import { readFileSync } from 'node:fs';
import { isEnumType, isObjectType, isUnionType, printSchema, validateSchema } from 'graphql';
import { describe, expect, it } from 'vitest';
import { commandStatuses } from '../../../src/domain/command.ts';
import { mutations, queries } from '../../../src/edges/graphql/root-fields.ts';
import { makeSchema } from '../../../src/edges/graphql/schema.ts';
import { routes } from '../../../src/edges/rest/routes.ts';

const schema = makeSchema();

/** https://spec.graphql.org/October2021/#DirectiveLocations */
const LOCATIONS_OF_2021: readonly string[] = [
  ...['QUERY', 'MUTATION', 'SUBSCRIPTION', 'FIELD', 'FRAGMENT_DEFINITION', 'FRAGMENT_SPREAD', 'INLINE_FRAGMENT'],
  ...['VARIABLE_DEFINITION', 'SCHEMA', 'SCALAR', 'OBJECT', 'FIELD_DEFINITION', 'ARGUMENT_DEFINITION', 'INTERFACE'],
  ...['UNION', 'ENUM', 'ENUM_VALUE', 'INPUT_OBJECT', 'INPUT_FIELD_DEFINITION'],
];

/** Operations without GraphQL: browser and command-line sign-in, probes, other protocols, and file transfers. */
const REST_ALONE = [
  ...[
    'openCookieSession',
    'logout',
    'getCsrfToken',
    'endAllSessions',
    'endProviderSession',
    'showSignInLink',
    'approveCliHandshake',
    'pollCliHandshake',
    'createWsTicket',
    'createSignInLink',
  ],
  ...['getLiveness', 'getReadiness', 'putArtifact', 'getArtifact', 'exportAudit', 'exportDeviceHistory'],
];

describe('the schema', () => {
  it('has directives at locations of the specification of October 2021 only, as older clients require', () => {
    const locations = schema.getDirectives().flatMap((directive) => directive.locations);
    expect(locations.filter((location) => !LOCATIONS_OF_2021.includes(location))).toEqual([]);
    expect(locations).toContain('FIELD_DEFINITION');
  });

  it('equals docs/schema.graphql', () => {
    const written = readFileSync(new URL('../../../docs/schema.graphql', import.meta.url), 'utf8');
    expect(`${printSchema(schema)}\n`, 'npm run schema writes it anew').toBe(written);
  });

  it('is valid', () => expect(validateSchema(schema)).toEqual([]));

  it('has every operation of REST except those specific to HTTP', () => {
    const here = new Set(
      [...Object.values(queries), ...Object.values(mutations)].map(({ operation }) => operation.name),
    );
    const missing = routes.map(({ operation }) => operation.name).filter((name) => !here.has(name));
    expect([...new Set(missing)].sort()).toEqual([...REST_ALONE].sort());
  });

  it('changes data in mutations only', () => {
    expect(Object.values(queries).filter(({ operation }) => operation.changes)).toEqual([]);
    expect(Object.values(mutations).filter(({ operation }) => !operation.changes)).toEqual([]);
  });

  it('returns the result of each mutation, or the reason of its refusal', () => {
    for (const name of Object.keys(mutations)) {
      const type = schema.getType(`${name.charAt(0).toUpperCase()}${name.slice(1)}Payload`);
      expect(isUnionType(type) && type.getTypes().map((one) => one.name)).toContain('Refused');
    }
    const type = schema.getType('CommandDevicePayload');
    expect(isUnionType(type) && type.getTypes().map((one) => one.name)).toEqual([
      'Dispatched',
      'DryRunRequired',
      'Refused',
    ]);
  });

  it('has enums for closed lists', () => {
    const status = schema.getType('CommandStatus');
    expect(isEnumType(status) && status.getValues().map(({ value }) => value)).toEqual([...commandStatuses]);
    expect(isEnumType(status) && status.getValues().map(({ name }) => name)).toContain('AWAITING_CONFIRMATION');
  });

  it('has a cursor for every entry of a list', () => {
    const connections = Object.values(schema.getTypeMap()).filter((one) => /Connection$/.test(one.name));
    expect(connections.length).toBeGreaterThan(12);
    for (const type of connections) {
      expect(isObjectType(type) && Object.keys(type.getFields())).toEqual(
        expect.arrayContaining(['edges', 'nodes', 'pageInfo']),
      );
    }
  });

  it('documents the required role and scope of every field', () => {
    const fields = schema.getMutationType()?.getFields() ?? {};
    expect(fields.updatePolicy?.description).toMatch(/role `admin` and the scope `write:tenant`\. For people only/);
  });
});
