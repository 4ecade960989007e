import {
  checkFirmware,
  createRelease,
  getRelease,
  listReleases,
  releaseFirmware,
  withdrawFirmware,
} from '../../../operations/firmware/firmware.ts';
import { getArtifact, putArtifact } from '../../../operations/firmware/firmware-artifacts.ts';
import {
  addFirmwareKey,
  getFirmwareSigning,
  removeFirmwareKey,
  setFirmwareSigning,
} from '../../../operations/firmware/firmware-signing.ts';
import { checkSignedFirmware, signedFirmwareCheck } from '../../../operations/firmware/signed-check.ts';
import type { Route } from '../route.ts';

export const firmwareRoutes: Route[] = [
  {
    ...{ method: 'POST', path: '/firmware/check', success: 200 },
    operation: checkFirmware,
    withoutCredential: { operation: checkSignedFirmware, body: signedFirmwareCheck },
  },
  { method: 'POST', path: '/firmware/release', operation: createRelease, success: 201 },
  { method: 'GET', path: '/firmware', operation: listReleases, success: 200 },
  { method: 'GET', path: '/firmware/{id}', operation: getRelease, success: 200 },
  { method: 'POST', path: '/firmware/{id}/release', operation: releaseFirmware, success: 200 },
  { method: 'POST', path: '/firmware/{id}/withdraw', operation: withdrawFirmware, success: 200 },
  { method: 'PUT', path: '/firmware/{id}/artifact', operation: putArtifact, success: 200 },
  { method: 'GET', path: '/firmware/{id}/artifact', operation: getArtifact, success: 200 },
  { method: 'GET', path: '/firmware/signing', operation: getFirmwareSigning, success: 200 },
  { method: 'PATCH', path: '/firmware/signing', operation: setFirmwareSigning, success: 200 },
  { method: 'POST', path: '/firmware/signing/keys', operation: addFirmwareKey, success: 201 },
  { method: 'DELETE', path: '/firmware/signing/keys/{key_id}', operation: removeFirmwareKey, success: 204 },
];
