import {
  approveChange,
  confirmChange,
  getChangeRequest,
  listChangeRequests,
  refuseChange,
} from '../../operations/changes/change-requests.ts';
import { orchestrateCommand } from '../../operations/cognition/goals.ts';
import { postIntent } from '../../operations/cognition/intents.ts';
import { adoptMemory, deleteMemory, listMemories, writeMemory } from '../../operations/cognition/memories.ts';
import { postObservation } from '../../operations/cognition/observations.ts';
import { acceptProposal, getProposal, listProposals, refuseProposal } from '../../operations/cognition/proposals.ts';
import { commandDevices, commandGroup, commandRoom } from '../../operations/commands/command-batches.ts';
import { getCommand, listCommands } from '../../operations/commands/command-view.ts';
import { cancelCommand, commandDevice, confirmCommand } from '../../operations/commands/commands.ts';
import {
  approveConfirmation,
  listConfirmations,
  refuseConfirmation,
} from '../../operations/commands/confirmation-inbox.ts';
import { getPolicy, updatePolicy } from '../../operations/commands/safety-policy.ts';
import { listTenantCommands } from '../../operations/commands/tenant-commands.ts';
import {
  beginCaRegistration,
  deleteCa,
  getCa,
  listCas,
  registerCa,
  updateCa,
} from '../../operations/device-cas/device-cas.ts';
import {
  bindCertificate,
  deviceCertificates,
  revokeCertificate,
  unbindCertificate,
} from '../../operations/device-cas/device-certificates.ts';
import { getDeviceActivity } from '../../operations/devices/device-activity.ts';
import { getDeviceHistory } from '../../operations/devices/device-history.ts';
import { keyHistory, reinstateDevice, revokeDevice, rotateSecret } from '../../operations/devices/device-keys.ts';
import { registerDevice } from '../../operations/devices/device-registration.ts';
import { deleteDevice, getDevice, listDevices, patchDevice } from '../../operations/devices/devices.ts';
import { importHistory } from '../../operations/devices/history-import.ts';
import { queryHistory } from '../../operations/devices/history-query.ts';
import {
  getManifest,
  listCapabilities,
  listCategories,
  registerManifest,
  updateManifest,
} from '../../operations/devices/manifests.ts';
import { listTags } from '../../operations/devices/tags.ts';
import {
  checkFirmware,
  createRelease,
  getRelease,
  listReleases,
  releaseFirmware,
  withdrawFirmware,
} from '../../operations/firmware/firmware.ts';
import {
  addFirmwareKey,
  getFirmwareSigning,
  removeFirmwareKey,
  setFirmwareSigning,
} from '../../operations/firmware/firmware-signing.ts';
import {
  createDashboard,
  deleteDashboard,
  getDashboard,
  listDashboards,
  replaceDashboard,
} from '../../operations/homes/dashboards.ts';
import {
  createGroup,
  deleteGroup,
  getGroup,
  joinGroup,
  leaveGroup,
  listGroups,
  updateGroup,
} from '../../operations/homes/groups.ts';
import {
  createHome,
  createRoom,
  deleteHome,
  deleteRoom,
  getHome,
  getRoom,
  listHomes,
  listRooms,
  updateHome,
  updateRoom,
} from '../../operations/homes/homes.ts';
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '../../operations/identity/api-keys.ts';
import { getMe } from '../../operations/identity/auth.ts';
import { acceptInvitation } from '../../operations/identity/invitations.ts';
import { changeMember, inviteMember, listMembers, removeMember } from '../../operations/identity/members.ts';
import { endMemberSessions, endSession, listMemberSessions, listSessions } from '../../operations/identity/sessions.ts';
import { getTenant, registerTenant } from '../../operations/identity/tenants.ts';
import { getActor, getActorJournal, listActors, releaseActor } from '../../operations/inspection/actors.ts';
import { listAudit, verifyAudit } from '../../operations/inspection/audit.ts';
import { getMachine, listMachines } from '../../operations/inspection/machines.ts';
import { getOverview } from '../../operations/inspection/overview.ts';
import type { Operation } from '../../operations/operation.ts';
import { getPlan, listPlans } from '../../operations/plans/plan-view.ts';
import { cancelPlan, createPlan } from '../../operations/plans/plans.ts';
import {
  listFlags,
  listTenants,
  resumeTenant,
  setFlag,
  setTier,
  suspendTenant,
} from '../../operations/platform/administration.ts';
import { drainNode, listNodes, resumeNode } from '../../operations/platform/nodes.ts';
import { rekey } from '../../operations/platform/rekey.ts';
import { getChangelog, getHealth, getStatus, getVersion } from '../../operations/platform/system.ts';
import { getDeviceTimeline, getHomeTimeline, getRoomTimeline } from '../../operations/timeline/timeline.ts';
import { explainValue } from '../../operations/timeline/value-explanation.ts';

/** A query field. Its result type is named by the output schema, otherwise by `typeName`. */
export interface QueryField {
  operation: Operation;
  /** The member of the body that is the result; without it the whole body is. */
  resultMember?: string;
  /** The member of the body that is a paged list, or the body itself: the field is a connection. */
  connectionMember?: string | 'the body';
  typeName?: string;
  /** Names of the variants, if the body is a union. */
  typeNames?: readonly string[];
  /** Defaults of arguments that limit lists in the result, which are lower than in the REST API: see `FieldCosts.listLimits`. */
  listLimits?: Readonly<Record<string, number>>;
}

/** A mutation field. Its result types are named by the output schema, otherwise by `typeNames` or the operation. */
export interface MutationField {
  operation: Operation;
  typeNames?: readonly (string | null)[];
}

/** Every read operation of REST, except those for browser sign-in, probes and files. */
export const queries: Readonly<Record<string, QueryField>> = {
  status: { operation: getStatus, typeName: 'ServiceStatus' },
  version: { operation: getVersion, typeName: 'ServiceVersion' },
  health: { operation: getHealth, typeNames: ['Healthy', 'Degraded'] },
  changelog: { operation: getChangelog, resultMember: 'entries', typeName: 'ChangelogEntry' },
  me: { operation: getMe, typeName: 'Me' },
  device: { operation: getDevice, resultMember: 'device' },
  devices: { operation: listDevices, connectionMember: 'devices' },
  tags: { operation: listTags, connectionMember: 'tags' },
  deviceActivity: { operation: getDeviceActivity, resultMember: 'activity' },
  deviceHistory: { operation: getDeviceHistory, resultMember: 'history', listLimits: { limit: 500 } },
  historyQuery: { operation: queryHistory, typeName: 'HistoryQueryResult', listLimits: { maxSeries: 10, limit: 200 } },
  deviceTimeline: { operation: getDeviceTimeline, connectionMember: 'entries' },
  valueExplanation: { operation: explainValue, resultMember: 'explanation' },
  deviceKeys: { operation: keyHistory, resultMember: 'keys' },
  deviceCertificates: { operation: deviceCertificates, typeName: 'DeviceCertificates' },
  ca: { operation: getCa, resultMember: 'ca' },
  cas: { operation: listCas, resultMember: 'cas' },
  command: { operation: getCommand, resultMember: 'command' },
  commands: { operation: listCommands, connectionMember: 'commands' },
  tenantCommands: { operation: listTenantCommands, connectionMember: 'commands' },
  confirmations: { operation: listConfirmations, connectionMember: 'confirmations' },
  changeRequest: { operation: getChangeRequest, resultMember: 'change' },
  changeRequests: { operation: listChangeRequests, connectionMember: 'changes' },
  policy: { operation: getPolicy, resultMember: 'policy' },
  home: { operation: getHome, resultMember: 'home' },
  homes: { operation: listHomes, connectionMember: 'homes' },
  homeTimeline: { operation: getHomeTimeline, connectionMember: 'entries' },
  room: { operation: getRoom, resultMember: 'room' },
  rooms: { operation: listRooms, connectionMember: 'rooms' },
  roomTimeline: { operation: getRoomTimeline, connectionMember: 'entries' },
  group: { operation: getGroup, resultMember: 'group' },
  groups: { operation: listGroups, connectionMember: 'groups' },
  dashboard: { operation: getDashboard, resultMember: 'dashboard' },
  dashboards: { operation: listDashboards, connectionMember: 'dashboards' },
  capabilities: { operation: listCapabilities, resultMember: 'capabilities' },
  categories: { operation: listCategories, resultMember: 'categories' },
  manifest: { operation: getManifest },
  memories: { operation: listMemories, connectionMember: 'memories' },
  proposal: { operation: getProposal, resultMember: 'proposal' },
  proposals: { operation: listProposals, connectionMember: 'proposals' },
  plan: { operation: getPlan, resultMember: 'plan' },
  plans: { operation: listPlans, connectionMember: 'plans' },
  firmwareUpdate: { operation: checkFirmware, typeName: 'FirmwareUpdate' },
  firmwareRelease: { operation: getRelease, resultMember: 'release' },
  firmwareReleases: { operation: listReleases, connectionMember: 'releases' },
  firmwareSigning: { operation: getFirmwareSigning, resultMember: 'signing' },
  actor: { operation: getActor, resultMember: 'actor' },
  actors: { operation: listActors, connectionMember: 'actors' },
  actorJournal: { operation: getActorJournal, connectionMember: 'entries' },
  machine: { operation: getMachine, resultMember: 'machine' },
  machines: { operation: listMachines, resultMember: 'machines', typeName: 'MachineSummary' },
  overview: { operation: getOverview, typeName: 'Overview' },
  audit: { operation: listAudit, connectionMember: 'entries' },
  auditVerification: { operation: verifyAudit, typeName: 'AuditVerification' },
  apiKeys: { operation: listApiKeys, connectionMember: 'keys' },
  members: { operation: listMembers, connectionMember: 'members' },
  memberSessions: { operation: listMemberSessions, connectionMember: 'sessions' },
  sessions: { operation: listSessions, connectionMember: 'sessions' },
  tenant: { operation: getTenant, resultMember: 'tenant' },
  tenants: { operation: listTenants, connectionMember: 'the body' },
  flags: { operation: listFlags, resultMember: 'flags', typeName: 'Flags' },
  serviceNodes: { operation: listNodes, typeName: 'ServiceNodes' },
};

const changes: readonly (Operation | MutationField)[] = [
  { operation: commandDevice, typeNames: [null, 'DryRunRequired'] },
  { operation: confirmCommand, typeNames: [null, 'PreviewChanged'] },
  cancelCommand,
  commandDevices,
  commandRoom,
  commandGroup,
  { operation: approveConfirmation, typeNames: [null, 'PreviewChanged'] },
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
  importHistory,
  deleteDevice,
  { operation: rotateSecret, typeNames: [null, 'ChangeDryRunRequired'] },
  { operation: revokeDevice, typeNames: [null, 'ChangeDryRunRequired'] },
  { operation: reinstateDevice, typeNames: [null, 'ChangeDryRunRequired'] },
  beginCaRegistration,
  registerCa,
  { operation: updateCa, typeNames: [null, 'ChangeDryRunRequired'] },
  deleteCa,
  { operation: bindCertificate, typeNames: [null, 'ChangeDryRunRequired'] },
  unbindCertificate,
  revokeCertificate,
  { operation: registerManifest, typeNames: [null, 'ChangeDryRunRequired'] },
  { operation: updateManifest, typeNames: [null, 'ChangeDryRunRequired'] },
  { operation: confirmChange, typeNames: [null, 'ChangeDryRunRequired'] },
  { operation: approveChange, typeNames: [null, 'ChangeDryRunRequired'] },
  refuseChange,
  createHome,
  updateHome,
  deleteHome,
  createRoom,
  updateRoom,
  deleteRoom,
  createGroup,
  updateGroup,
  joinGroup,
  leaveGroup,
  deleteGroup,
  createDashboard,
  replaceDashboard,
  deleteDashboard,
  writeMemory,
  adoptMemory,
  deleteMemory,
  createRelease,
  { operation: releaseFirmware, typeNames: [null, 'ChangeDryRunRequired'] },
  withdrawFirmware,
  { operation: addFirmwareKey, typeNames: [null, 'ChangeDryRunRequired'] },
  removeFirmwareKey,
  { operation: setFirmwareSigning, typeNames: [null, 'ChangeDryRunRequired'] },
  { operation: updatePolicy, typeNames: [null, 'ChangeDryRunRequired'] },
  inviteMember,
  changeMember,
  removeMember,
  acceptInvitation,
  createApiKey,
  revokeApiKey,
  rotateApiKey,
  endSession,
  endMemberSessions,
  registerTenant,
  releaseActor,
  suspendTenant,
  resumeTenant,
  setTier,
  setFlag,
  drainNode,
  resumeNode,
  rekey,
];

export const mutations: Readonly<Record<string, MutationField>> = Object.fromEntries(
  changes.map((one) => ('operation' in one ? one : { operation: one })).map((field) => [field.operation.name, field]),
);
