import { atLeast, type Role } from '../../../domain/roles.ts';
import { allowsScope } from '../../../domain/scopes.ts';
import { getCommand } from '../../../operations/commands/command-view.ts';
import { listConfirmations } from '../../../operations/commands/confirmation-inbox.ts';
import { listDevices } from '../../../operations/devices/devices.ts';
import { getHome } from '../../../operations/homes/homes.ts';
import { listActors } from '../../../operations/inspection/actors.ts';
import type { Caller, Operation } from '../../../operations/operation.ts';
import { getPlan } from '../../../operations/plans/plan-view.ts';
import type { AccessRequirement } from './subscription.ts';

/**
 * The operation whose answer has the same data as a live message. Every stream (WebSocket, GraphQL subscriptions, MQTT,
 * MCP resources) takes role and scope from it, so that a credential receives nothing that it may not read over REST.
 */
const readOperations = {
  /** State, presence and what else a device reports. */
  device: listDevices,
  command: getCommand,
  confirmation: listConfirmations,
  plan: getPlan,
  home: getHome,
  actor: listActors,
} as const satisfies Record<string, Operation>;
export type LiveSubject = keyof typeof readOperations;

/** Requirements of the operation that reads the subject. */
export function readAccess(subject: LiveSubject): AccessRequirement {
  const { role, scope, restrictedKeys }: Operation = readOperations[subject];
  if (role === null || scope === null)
    throw new Error(`${subject} needs no credential: it must not be streamed by tenant`);
  return { role, scope, forRestrictedKeys: restrictedKeys !== undefined };
}

/** The same for streams that need the role `user` for everything (contract §3: `/ws/state`, MQTT). */
export function streamAccess(subject: LiveSubject): AccessRequirement {
  const { role, ...access } = readAccess(subject);
  const least: Role = 'user';
  return { role: atLeast(role, least) ? role : least, ...access };
}

/** Whether a caller meets a requirement. */
export const meets = (
  { role, scopes, restriction }: Pick<Caller, 'role' | 'scopes' | 'restriction'>,
  required: AccessRequirement,
): boolean =>
  atLeast(role, required.role) &&
  allowsScope(scopes, required.scope) &&
  (restriction === undefined || required.forRestrictedKeys);
