import { atLeast, type Role } from './roles.ts';

/** What somebody can be in a tenant. */
export const memberRoles = ['viewer', 'user', 'admin', 'owner'] as const satisfies readonly Role[];

/** Contract §3: members are an admin's to change, and nobody grants, changes or removes what is above their own role. */
export const mayDecideOn = (actor: Role, role: Role): boolean => atLeast(actor, 'admin') && atLeast(actor, role);

/** Addresses are one without regard to the case of ASCII letters, and of no others: the Kelvin sign is no `k`. */
export const sameEmail = (a: string, b: string): boolean => folded(a) === folded(b);

const folded = (email: string): string => email.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
