import { getActor, getActorJournal, listActors, releaseActor } from '../../operations/actors.ts';
import {
  listFlags,
  listTenants,
  resumeTenant,
  setFlag,
  setTier,
  suspendTenant,
} from '../../operations/administration.ts';
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '../../operations/api-keys.ts';
import { listAudit } from '../../operations/audit.ts';
import { getMe } from '../../operations/auth.ts';
import { orchestrateCommand } from '../../operations/cognition/goals.ts';
import { postObservation } from '../../operations/cognition/observations.ts';
import { acceptProposal, getProposal, listProposals, refuseProposal } from '../../operations/cognition/proposals.ts';
import { commandDevices, commandGroup, commandRoom } from '../../operations/command-batches.ts';
import { getCommand, listCommands } from '../../operations/command-view.ts';
import { cancelCommand, commandDevice, confirmCommand } from '../../operations/commands.ts';
import { approveConfirmation, listConfirmations, refuseConfirmation } from '../../operations/confirmations.ts';
import { getDeviceActivity } from '../../operations/device-activity.ts';
import { keyHistory, reinstateDevice, revokeDevice, rotateSecret } from '../../operations/device-keys.ts';
import { registerDevice } from '../../operations/device-registration.ts';
import { deleteDevice, getDevice, listDevices, patchDevice } from '../../operations/devices.ts';
import {
  checkFirmware,
  createRelease,
  getRelease,
  listReleases,
  releaseFirmware,
  withdrawFirmware,
} from '../../operations/firmware.ts';
import { createGroup, deleteGroup, joinGroup, leaveGroup, listGroups } from '../../operations/groups.ts';
import {
  createHome,
  createRoom,
  deleteHome,
  deleteRoom,
  getHome,
  listHomes,
  listRooms,
  updateHome,
} from '../../operations/homes.ts';
import { postIntent } from '../../operations/intents.ts';
import { acceptInvitation } from '../../operations/invitations.ts';
import { getMachine, listMachines } from '../../operations/machines.ts';
import {
  getManifest,
  listCapabilities,
  listCategories,
  registerManifest,
  updateManifest,
} from '../../operations/manifests.ts';
import { changeMember, inviteMember, listMembers, removeMember } from '../../operations/members.ts';
import { deleteMemory, listMemories, writeMemory } from '../../operations/memories.ts';
import type { Operation } from '../../operations/operation.ts';
import { getOverview } from '../../operations/overview.ts';
import { getPlan, listPlans } from '../../operations/plan-view.ts';
import { cancelPlan, createPlan } from '../../operations/plans.ts';
import { getPolicy, updatePolicy } from '../../operations/policy.ts';
import { getChangelog, getHealth, getStatus, getVersion } from '../../operations/system.ts';
import { registerTenant } from '../../operations/tenants.ts';

/** A read. What it answers has the name of its schema, else the one that is given. */
export interface QueryField {
  operation: Operation;
  /** A member of the body that is the answer; without it the whole body is. */
  shows?: string;
  /** The member of the body that is a list in pages, or the body itself: a connection. */
  pages?: string | 'the body';
  name?: string;
  /** Where the body may be several things. */
  names?: readonly string[];
}

/** A change. What it answers beside `Refused` has the name of its schema, else of the operation, else the one that is given. */
export interface MutationField {
  operation: Operation;
  names?: readonly (string | null)[];
}

/** Every read of REST but what belongs to a browser's sign-in, to a probe or to a file. */
export const queries: Readonly<Record<string, QueryField>> = {
  status: { operation: getStatus, name: 'ServiceStatus' },
  version: { operation: getVersion, name: 'ServiceVersion' },
  health: { operation: getHealth, names: ['Healthy', 'Degraded'] },
  changelog: { operation: getChangelog, shows: 'entries', name: 'ChangelogEntry' },
  me: { operation: getMe, name: 'Me' },
  device: { operation: getDevice, shows: 'device' },
  devices: { operation: listDevices, pages: 'devices' },
  deviceActivity: { operation: getDeviceActivity, shows: 'activity' },
  deviceKeys: { operation: keyHistory, shows: 'keys' },
  command: { operation: getCommand, shows: 'command' },
  commands: { operation: listCommands, pages: 'commands' },
  confirmations: { operation: listConfirmations, pages: 'confirmations' },
  policy: { operation: getPolicy, shows: 'policy' },
  home: { operation: getHome, shows: 'home' },
  homes: { operation: listHomes, pages: 'homes' },
  rooms: { operation: listRooms, pages: 'rooms' },
  groups: { operation: listGroups, pages: 'groups' },
  capabilities: { operation: listCapabilities, shows: 'capabilities' },
  categories: { operation: listCategories, shows: 'categories' },
  manifest: { operation: getManifest },
  memories: { operation: listMemories, pages: 'memories' },
  proposal: { operation: getProposal, shows: 'proposal' },
  proposals: { operation: listProposals, pages: 'proposals' },
  plan: { operation: getPlan, shows: 'plan' },
  plans: { operation: listPlans, pages: 'plans' },
  firmwareUpdate: { operation: checkFirmware, name: 'FirmwareUpdate' },
  firmwareRelease: { operation: getRelease, shows: 'release' },
  firmwareReleases: { operation: listReleases, pages: 'releases' },
  actor: { operation: getActor, shows: 'actor' },
  actors: { operation: listActors, pages: 'actors' },
  actorJournal: { operation: getActorJournal, pages: 'entries' },
  machine: { operation: getMachine, shows: 'machine' },
  machines: { operation: listMachines, shows: 'machines', name: 'MachineSummary' },
  overview: { operation: getOverview, name: 'Overview' },
  audit: { operation: listAudit, pages: 'entries' },
  apiKeys: { operation: listApiKeys, pages: 'keys' },
  members: { operation: listMembers, pages: 'members' },
  tenants: { operation: listTenants, pages: 'the body' },
  flags: { operation: listFlags, shows: 'flags', name: 'Flags' },
};

const changes: readonly (Operation | MutationField)[] = [
  { operation: commandDevice, names: [null, 'DryRunRequired'] },
  confirmCommand,
  cancelCommand,
  commandDevices,
  commandRoom,
  commandGroup,
  approveConfirmation,
  refuseConfirmation,
  postIntent,
  orchestrateCommand,
  postObservation,
  acceptProposal,
  refuseProposal,
  createPlan,
  cancelPlan,
  registerDevice,
  patchDevice,
  deleteDevice,
  rotateSecret,
  revokeDevice,
  reinstateDevice,
  registerManifest,
  updateManifest,
  createHome,
  updateHome,
  deleteHome,
  createRoom,
  deleteRoom,
  createGroup,
  joinGroup,
  leaveGroup,
  deleteGroup,
  writeMemory,
  deleteMemory,
  createRelease,
  releaseFirmware,
  withdrawFirmware,
  updatePolicy,
  inviteMember,
  changeMember,
  removeMember,
  acceptInvitation,
  createApiKey,
  revokeApiKey,
  rotateApiKey,
  registerTenant,
  releaseActor,
  suspendTenant,
  resumeTenant,
  setTier,
  setFlag,
];

export const mutations: Readonly<Record<string, MutationField>> = Object.fromEntries(
  changes.map((one) => ('operation' in one ? one : { operation: one })).map((field) => [field.operation.name, field]),
);
