import { describe, expect, it } from 'vitest';
import { atLeast, atMost, isRole, roles } from '../../src/domain/roles.ts';

describe('roles', () => {
  it('are ordered none, viewer, user, admin, owner', () => {
    expect(roles).toEqual(['none', 'viewer', 'user', 'admin', 'owner']);
    for (const [i, role] of roles.entries()) {
      for (const [j, needed] of roles.entries()) expect(atLeast(role, needed)).toBe(i >= j);
    }
  });

  it('can be capped', () => {
    expect(atMost('owner', 'admin')).toBe('admin');
    expect(atMost('admin', 'admin')).toBe('admin');
    expect(atMost('viewer', 'admin')).toBe('viewer');
  });

  it('are exactly five names', () => {
    expect(roles.every(isRole)).toBe(true);
    for (const value of ['root', 'Owner', '', 0, null, undefined]) expect(isRole(value)).toBe(false);
  });
});
