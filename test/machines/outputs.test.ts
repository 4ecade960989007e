import { describe, expect, it } from 'vitest';
import { isDurable, isRow, needsCommit, type Output } from '../../src/machines/outputs.ts';
import { COMMAND, DEVICE, HOME, key, manifest, T0, TENANT } from './samples.ts';

const messageOutput: Output = {
  type: 'actor.tell',
  to: { kind: 'command', id: COMMAND },
  event: { type: 'device.revoked', deviceId: DEVICE },
};
const durable: Output[] = [
  messageOutput,
  { type: 'commands.tell', deviceId: DEVICE, event: { type: 'device.revoked', deviceId: DEVICE } },
  { type: 'plans.tell', tenantId: TENANT, event: { type: 'tenant.suspended' } },
  { type: 'plan.ask', planId: HOME, stepId: 'one', commandId: COMMAND },
];
const rows: Output[] = [
  { type: 'key.put', deviceId: DEVICE, key: key(1) },
  { type: 'keys.end', deviceId: DEVICE, status: 'retired', at: T0 },
  { type: 'key.grace', deviceId: DEVICE, keyVersion: 1, graceUntil: T0 },
  { type: 'manifest.put', manifest: manifest(1) },
  { type: 'tags.change', deviceId: DEVICE, deviceCreatedAt: T0, added: ['a'], removed: [] },
  { type: 'member.bind', userId: HOME, tenantId: TENANT, role: 'owner' },
];
const volatile: Output[] = [
  { type: 'message.accepted', repeat: false },
  { type: 'refused', refusal: { code: 'CONFLICT', detail: '' } },
  { type: 'tenant.changed', tenantId: TENANT, suspended: false, at: T0 },
];

describe('an output', () => {
  it('is either delivered at least once, a row of its commit, or volatile', () => {
    const kinds = (outputs: Output[]) =>
      outputs.map((output) => [isDurable(output), isRow(output), needsCommit(output)]);
    expect(kinds(durable)).toEqual(durable.map(() => [true, false, true]));
    expect(kinds(rows)).toEqual(rows.map(() => [false, true, true]));
    expect(kinds(volatile)).toEqual(volatile.map(() => [false, false, false]));
  });
});
