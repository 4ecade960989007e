import { expect, it } from 'vitest';
import { routes } from '../../../src/edges/rest/routes.ts';

/** Contract §3: requests that are allowed under `maintenance_mode` although they change something. */
const goesOn: readonly RegExp[] = [
  /^POST \/admin\//,
  /^POST \/auth\/(session|link|logout|backchannel-logout|cli|cli\/.+)$/,
  /^DELETE \/(auth\/sessions|auth\/sessions\/\{\w+\}|tenant\/members\/\{\w+\}\/sessions)$/,
  /^GET \/auth\/(login|callback|cli|handshake)(\/.*)?$/,
  /^POST \/ws\/ticket$/,
  /^POST \/firmware\/check$/,
  /^POST \/(auth|tenant)\/.*revoke$/,
  /^POST \/device\/\{\w+\}\/revoke$/,
  // A CA of devices is set inactive or deleted, and its certificates are revoked.
  /^(PATCH|DELETE) \/cas\/\{\w+\}$/,
  /^POST \/cas\/\{\w+\}\/revocations$/,
  // A common name is unbound from its device.
  /^DELETE \/devices\/\{\w+\}\/certificates$/,
  /^POST \/commands\/\{\w+\}\/cancel$/,
  /^POST \/plans\/\{\w+\}\/cancel$/,
  /^POST \/(confirmations|change-requests|cognition\/proposals)\/\{\w+\}\/refuse$/,
  // Only for a change whose request goes on, such as a revocation.
  /^POST \/change-requests\/\{\w+\}\/(confirm|approve)$/,
];

it.each(routes.filter(({ operation }) => operation.changes).map((route) => [`${route.method} ${route.path}`, route]))(
  'maintenance refuses %s, unless the contract excepts it',
  (name, { operation }) => {
    expect(operation.inMaintenance === true).toBe(goesOn.some((pattern) => pattern.test(name)));
  },
);

it('GET is used for reads only', () => {
  const changing = routes.filter(({ method, operation }) => method === 'GET' && operation.changes);
  const names = changing.map(({ method, path }) => `${method} ${path}`);
  expect(names.filter((name) => !goesOn.some((pattern) => pattern.test(name)))).toEqual([]);
});
