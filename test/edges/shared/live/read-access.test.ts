import { describe, expect, it } from 'vitest';
import { meets, readAccess, streamAccess } from '../../../../src/edges/shared/live/read-access.ts';
import { updateKinds } from '../../../../src/edges/shared/live/update-kinds.ts';
import { actorAccessRequirement } from '../../../../src/edges/websocket/actor-stream.ts';

describe('the access to live messages', () => {
  it('is that of the GET with the same data', () => {
    expect(readAccess('device')).toEqual({ role: 'user', scope: 'read:devices', forRestrictedKeys: true });
    expect(readAccess('command')).toEqual({ role: 'user', scope: 'read:commands', forRestrictedKeys: true });
    expect(readAccess('confirmation')).toEqual({ role: 'user', scope: 'read:commands', forRestrictedKeys: true });
    expect(readAccess('plan')).toEqual({ role: 'viewer', scope: 'read:plans', forRestrictedKeys: false });
    expect(readAccess('home')).toEqual({ role: 'viewer', scope: 'read:homes', forRestrictedKeys: true });
    expect(actorAccessRequirement).toEqual({ role: 'admin', scope: 'read:actors', forRestrictedKeys: false });
  });

  it('needs at least the role `user` on the streams of a tenant', () => {
    expect(streamAccess('plan')).toEqual({ role: 'user', scope: 'read:plans', forRestrictedKeys: false });
    expect(streamAccess('actor').role).toBe('admin');
    const { state, report, presence, command, confirmation, plan } = updateKinds;
    expect(
      [state, report, presence, command, confirmation, plan].map(({ role, scope, forRestrictedKeys }) => ({
        role,
        scope,
        forRestrictedKeys,
      })),
    ).toEqual((['device', 'device', 'device', 'command', 'confirmation', 'plan'] as const).map(streamAccess));
  });

  it('is met by role and scope together', () => {
    const needed = readAccess('device');
    expect(meets({ role: 'user', scopes: null }, needed)).toBe(true);
    expect(meets({ role: 'admin', scopes: ['read:*'] }, needed)).toBe(true);
    expect(meets({ role: 'viewer', scopes: null }, needed)).toBe(false);
    expect(meets({ role: 'owner', scopes: [] }, needed)).toBe(false);
    expect(meets({ role: 'owner', scopes: ['read:commands'] }, needed)).toBe(false);
  });

  it('is met by a restricted key if the GET supports restricted keys', () => {
    const key = { role: 'owner', scopes: null, restriction: { actions: ['turn_on'] } } as const;
    expect(meets(key, readAccess('device'))).toBe(true);
    expect(meets(key, readAccess('plan'))).toBe(false);
  });
});
