import { z } from 'zod';
import { done } from '../domain/refusals.ts';
import { roles } from '../domain/roles.ts';
import type { TenantContext } from '../machines/tenant-types.ts';
import { operation } from './operation.ts';

export const getMe = operation({
  name: 'getMe',
  summary: 'Who the presented credential belongs to',
  input: z.strictObject({}),
  output: z.object({
    authenticated: z.boolean(),
    has_tenant: z.boolean(),
    user: z.object({
      id: z.uuid(),
      ext_id: z.string().meta({ description: 'The subject at who issued the token' }),
      email: z.string().nullable(),
      role: z.enum(roles),
      tenant_id: z.uuid().nullable(),
      tenant_slug: z.string().nullable(),
    }),
  }),
  role: 'none',
  scope: null,
  changes: false,
  inSuspension: true,
  async run({ actors }, { caller }) {
    const { user, role, tenantId } = caller;
    if (user === null) throw new Error('nobody asked who they are');
    const tenant = tenantId === null ? null : await actors.read<TenantContext>({ kind: 'tenant', id: tenantId });
    return done({
      body: {
        authenticated: true,
        has_tenant: tenantId !== null,
        user: {
          id: user.id,
          ext_id: user.sub,
          email: user.email,
          role,
          tenant_id: tenantId,
          tenant_slug: tenant?.snapshot.context.slug ?? null,
        },
      },
    });
  },
});

export const logout = operation({
  name: 'logout',
  summary: 'Revoke the presented token',
  input: z.strictObject({}),
  output: z.object({ status: z.literal('logged_out') }),
  role: null,
  scope: null,
  greets: true,
  changes: true,
  inMaintenance: true,
  inSuspension: true,
  async run({ revocations }, { caller }) {
    if (caller.token !== null) await revocations.add(caller.token.id, caller.token.expiresAt);
    return done({ body: { status: 'logged_out' as const } });
  },
});
