import { describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { KeyRestriction } from '../../src/domain/key-restriction.ts';
import { mutations, queries } from '../../src/edges/graphql/root-fields.ts';
import { tools } from '../../src/edges/mcp/tools/tool-list.ts';
import { routes } from '../../src/edges/rest/routes.ts';
import { callerRefusal } from '../../src/operations/caller-authorization.ts';
import * as bulk from '../../src/operations/devices/bulk-lookups.ts';
import type { Caller, Operation } from '../../src/operations/operation.ts';

/*
 * Operations for restricted keys. An operation that is added here needs its tests in test/flows/restricted-keys.test.ts or
 * restricted-keys-streams.test.ts; one that is not here refuses restricted keys.
 */
const supported: Readonly<Record<string, NonNullable<Operation['restrictedKeys']>>> = {
  listDevices: 'devices',
  listTags: 'devices',
  getDevice: 'devices',
  getDeviceActivity: 'devices',
  getDeviceHistory: 'devices',
  exportDeviceHistory: 'devices',
  queryHistory: 'devices',
  getDeviceTimeline: 'devices',
  explainValue: 'devices',
  getHomeTimeline: 'devices',
  getRoomTimeline: 'devices',
  getManifest: 'devices',
  listCapabilities: 'unaffected',
  listCategories: 'unaffected',
  listHomes: 'devices',
  getHome: 'devices',
  getRoom: 'devices',
  getGroup: 'devices',
  listRooms: 'devices',
  listGroups: 'devices',
  commandDevice: 'actions',
  commandDevices: 'actions',
  commandRoom: 'actions',
  commandGroup: 'actions',
  confirmCommand: 'actions',
  cancelCommand: 'actions',
  listCommands: 'devices',
  listTenantCommands: 'devices',
  getCommand: 'devices',
  listConfirmations: 'devices',
  approveConfirmation: 'actions',
  refuseConfirmation: 'actions',
  postIntent: 'actions',
  createWsTicket: 'devices',
  getMe: 'unaffected',
  getTenant: 'unaffected',
};

const operations = new Map<string, Operation>(
  [
    ...routes.map(({ operation }) => operation),
    ...Object.values(queries).map(({ operation }) => operation),
    ...Object.values(mutations).map(({ operation }) => operation),
    ...tools.map(({ operation }) => operation),
    ...Object.values(bulk as Record<string, unknown>).filter((one) => isOperation(one)),
  ].map((operation) => [operation.name, operation]),
);

function isOperation(value: unknown): value is Operation {
  return typeof value === 'object' && value !== null && 'run' in value;
}

const restricted = (restriction: KeyRestriction): Caller => ({
  user: { id: 'u', tenantId: 't' } as never,
  principal: { kind: 'user', id: 'u', key: 'abcdefgh', person: false },
  tenantId: 't',
  role: 'owner',
  scopes: null,
  restriction,
  platformAdmin: false,
  token: null,
  endsAt: null,
  requestId: 'r',
});

describe('a restricted key', () => {
  it('may use the operations of this table, and no other', () => {
    const declared = [...operations.values()].flatMap(({ name, restrictedKeys }) =>
      restrictedKeys === undefined ? [] : [[name, restrictedKeys]],
    );
    expect(Object.fromEntries(declared)).toEqual(supported);
  });

  it.each([...operations].filter(([name, { role }]) => role !== null && supported[name] === undefined))(
    '%s refuses it',
    (_, operation) => {
      const refusal = callerRefusal(operation, restricted({ actions: ['turn_on'] }));
      expect(refusal?.refusal.code).toMatch(/^(KEY_RESTRICTED|FORBIDDEN)$/);
    },
  );

  it.each(Object.keys(supported))('%s changes nothing but commands and tickets', (name) => {
    const { changes, restrictedKeys, personOnly, platformOnly } = operations.get(name) as Operation;
    expect([personOnly, platformOnly]).toEqual([undefined, undefined]);
    if (changes) expect(restrictedKeys === 'actions' || name === 'createWsTicket').toBe(true);
  });

  it('has a list that names each kind of place in the table of inputs', () => {
    const made = routes.find(({ operation }) => operation.name === 'createApiKey')?.operation.input as z.ZodObject;
    const field = (made.shape.restrict_to as z.ZodOptional<z.ZodObject>).unwrap();
    expect(Object.keys(field.shape).sort()).toEqual(['actions', 'categories', 'devices', 'groups', 'homes', 'rooms']);
  });
});
