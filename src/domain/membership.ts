import { atLeast, type Role } from './roles.ts';

/** Roles of a tenant's members. */
export const memberRoles = ['viewer', 'user', 'admin', 'owner'] as const satisfies readonly Role[];
export type MemberRole = (typeof memberRoles)[number];

/** Contract §3: only admins change members, and never grant, change or remove a role above their own. */
export const mayDecideOn = (actor: Role, role: Role): boolean => atLeast(actor, 'admin') && atLeast(actor, role);

/** Compares addresses ignoring the case of ASCII letters only: the Kelvin sign does not equal `k`. */
export const sameEmail = (a: string, b: string): boolean => folded(a) === folded(b);

const folded = (email: string): string => email.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
