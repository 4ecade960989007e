import {
  beginCaRegistration,
  deleteCa,
  getCa,
  listCas,
  registerCa,
  updateCa,
} from '../../../operations/device-cas/device-cas.ts';
import {
  bindCertificate,
  deviceCertificates,
  revokeCertificate,
  unbindCertificate,
} from '../../../operations/device-cas/device-certificates.ts';
import type { Route } from '../route.ts';

export const deviceCaRoutes: Route[] = [
  { method: 'POST', path: '/cas/verifications', operation: beginCaRegistration, success: 201 },
  { method: 'POST', path: '/cas', operation: registerCa, success: 201 },
  { method: 'GET', path: '/cas', operation: listCas, success: 200 },
  { method: 'GET', path: '/cas/{id}', operation: getCa, success: 200 },
  { method: 'PATCH', path: '/cas/{id}', operation: updateCa, success: 200 },
  { method: 'DELETE', path: '/cas/{id}', operation: deleteCa, success: 204 },
  { method: 'POST', path: '/cas/{id}/revocations', operation: revokeCertificate, success: 200 },
  { method: 'GET', path: '/devices/{id}/certificates', operation: deviceCertificates, success: 200 },
  { method: 'POST', path: '/devices/{id}/certificates', operation: bindCertificate, success: 201 },
  { method: 'DELETE', path: '/devices/{id}/certificates', operation: unbindCertificate, success: 204 },
];
