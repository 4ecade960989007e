import { describe, expect, it } from 'vitest';
import { meets, readAccess, streamAccess } from '../../../../src/edges/shared/live/read-access.ts';
import { updateKinds } from '../../../../src/edges/shared/live/update-kinds.ts';
import { actorAccessRequirement } from '../../../../src/edges/websocket/actor-stream.ts';

describe('the access to live messages', () => {
  it('is that of the GET with the same data', () => {
    expect(readAccess('device')).toEqual({ role: 'user', scope: 'read:devices' });
    expect(readAccess('command')).toEqual({ role: 'user', scope: 'read:commands' });
    expect(readAccess('confirmation')).toEqual({ role: 'user', scope: 'read:commands' });
    expect(readAccess('plan')).toEqual({ role: 'viewer', scope: 'read:plans' });
    expect(readAccess('home')).toEqual({ role: 'viewer', scope: 'read:homes' });
    expect(actorAccessRequirement).toEqual({ role: 'admin', scope: 'read:actors' });
  });

  it('needs at least the role `user` on the streams of a tenant', () => {
    expect(streamAccess('plan')).toEqual({ role: 'user', scope: 'read:plans' });
    expect(streamAccess('actor').role).toBe('admin');
    const { state, presence, command, confirmation, plan } = updateKinds;
    expect([state, presence, command, confirmation, plan].map(({ role, scope }) => ({ role, scope }))).toEqual(
      (['device', 'device', 'command', 'confirmation', 'plan'] as const).map(streamAccess),
    );
  });

  it('is met by role and scope together', () => {
    const needed = readAccess('device');
    expect(meets({ role: 'user', scopes: null }, needed)).toBe(true);
    expect(meets({ role: 'admin', scopes: ['read:*'] }, needed)).toBe(true);
    expect(meets({ role: 'viewer', scopes: null }, needed)).toBe(false);
    expect(meets({ role: 'owner', scopes: [] }, needed)).toBe(false);
    expect(meets({ role: 'owner', scopes: ['read:commands'] }, needed)).toBe(false);
  });
});
