/** In ascending order (contract §3). */
export const roles = ['none', 'viewer', 'user', 'admin', 'owner'] as const;
export type Role = (typeof roles)[number];

export const isRole = (value: unknown): value is Role => roles.includes(value as Role);

export const atLeast = (role: Role, needed: Role): boolean => roles.indexOf(role) >= roles.indexOf(needed);

/** The lower of two roles: an API key acts with its creator's role, but at most as `admin`. */
export const atMost = (role: Role, cap: Role): Role => (atLeast(role, cap) ? cap : role);
