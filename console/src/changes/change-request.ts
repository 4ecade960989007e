import type {
  approveChange,
  getChangeRequest,
  listChangeRequests,
} from '../../../src/operations/changes/change-requests.ts';
import type { changeDryRun } from '../../../src/operations/changes/confirmed-change.ts';
import type { ResponseBody } from '../api/answer-types.ts';

export type ChangeRequestList = ResponseBody<typeof listChangeRequests>;
export type ChangeRequestEntry = ChangeRequestList['changes'][number];
export type ChangeRequestRecord = ResponseBody<typeof getChangeRequest>['change'];
/** The response to a change that must be confirmed. */
export type PendingChange = (typeof changeDryRun)['_output'];
/** The response to a confirmation. */
export type AppliedChangeBody = Extract<ResponseBody<typeof approveChange>, { status: 'applied' }>;

export const CHANGES = '/v1/change-requests';
export const changePath = (id: string, rest = ''): string => `${CHANGES}/${id}${rest}`;

/** The device that a change is about, or null. */
export const deviceOfChange = (subject: string): string | null =>
  subject.startsWith('device:') ? subject.slice('device:'.length) : null;

/** Titles of change requests by their operation. */
const titles: Readonly<Record<string, string>> = {
  registerManifest: 'First manifest',
  updateManifest: 'New manifest',
  updatePolicy: 'Looser safety policy',
  rotateSecret: 'New device key',
  reinstateDevice: 'Reinstatement',
  revokeDevice: 'Revocation',
  bindCertificate: 'New device certificate',
  updateCa: 'Activation of a device CA',
  releaseFirmware: 'Firmware release',
  setFirmwareSigning: 'Firmware without signatures',
  addFirmwareKey: 'New firmware key',
};

export const changeTitle = (operation: string): string => titles[operation] ?? operation;
