import { expect, it } from 'vitest';
import type { DeviceCa } from '../../../src/domain/device-ca.ts';
import { CertificateChecks, type CheckedSession } from '../../../src/edges/mqtt/certificate-checks.ts';
import { newId } from '../../support/actor-commits.ts';

const log = { debug() {}, info() {}, warn() {}, error() {} };

/** 200 sessions of one CA, one of another CA and one without a certificate, with a store that counts its reads. */
function withSessions({ status = 'active' as DeviceCa['status'] | null, faults = 0 } = {}) {
  const [caId, tenantId] = [newId(), newId()];
  const revoked = new Set<string>();
  const ended: (string | null)[] = [];
  const reads = { find: 0, isInForce: 0 };
  let left = faults;
  const fault = () => {
    if (left-- > 0) throw new Error('the store is unavailable');
  };
  const sessionOf = (certificate: CheckedSession['certificate'], deviceId = newId()): CheckedSession => {
    const session = {
      ...{ tenantId, deviceId, certificate, ended: false },
      end() {
        session.ended = true;
        ended.push(certificate?.serialNumber ?? null);
      },
    };
    return session;
  };
  const sessions = [
    ...Array.from({ length: 200 }, (_, n) => sessionOf({ caId, serialNumber: `A${n}` })),
    ...[sessionOf({ caId: newId(), serialNumber: 'B' }), sessionOf(null)],
  ];
  const checks = new CertificateChecks({
    store: {
      deviceCas: {
        find: async () => {
          reads.find += 1;
          fault();
          return status === null ? null : ({ status } as DeviceCa);
        },
        isInForce: async (_, serialNumber) => {
          reads.isInForce += 1;
          fault();
          return !revoked.has(serialNumber);
        },
      },
    },
    ...{ sessions: () => sessions, log, retry: { firstMs: 1, maxMs: 1 } },
  });
  return { caId, sessions, checks, revoked, ended, reads };
}

it('the revocation of one certificate reads once, and ends its session alone', async () => {
  const { caId, checks, revoked, ended, reads } = withSessions();
  revoked.add('A7');
  await checks.checkCa(caId, { serialNumber: 'A7' });
  expect([ended, reads]).toEqual([['A7'], { find: 0, isInForce: 1 }]);
});

it('the revocation of a certificate without a session reads nothing', async () => {
  const { caId, checks, ended, reads } = withSessions();
  await checks.checkCa(caId, { serialNumber: 'C1' });
  await checks.checkCa(newId());
  expect([ended, reads]).toEqual([[], { find: 0, isInForce: 0 }]);
});

it('an unbound common name of a device reads once, and ends the session of that device alone', async () => {
  const { caId, sessions, checks, revoked, ended, reads } = withSessions();
  for (let n = 0; n < 200; n += 1) revoked.add(`A${n}`);
  await checks.checkCa(caId, { deviceId: sessions[7]?.deviceId });
  expect([ended, reads]).toEqual([['A7'], { find: 0, isInForce: 1 }]);
});

it.each(['inactive', null] as const)('a CA that is %s ends all its sessions after one read', async (status) => {
  const { caId, checks, ended, reads } = withSessions({ status });
  await checks.checkCa(caId);
  expect(ended).toHaveLength(200);
  expect([ended.includes('B'), ended.includes(null), reads]).toEqual([false, false, { find: 1, isInForce: 0 }]);
});

it('a change without a serial number of a CA that is active ends revoked certificates alone', async () => {
  const { caId, checks, revoked, ended } = withSessions();
  revoked.add('A3');
  await checks.checkCa(caId);
  expect(ended).toEqual(['A3']);
});

it('a fault of the store ends no session while the check is repeated', async () => {
  const { caId, sessions, checks, revoked, ended, reads } = withSessions({ faults: 5 });
  await checks.check(sessions[0] as CheckedSession);
  expect([ended, reads.isInForce]).toEqual([[], 6]);
  revoked.add('A9');
  await checks.checkCa(caId, { serialNumber: 'A9' });
  expect(ended).toEqual(['A9']);
});

it('a store that stays unavailable ends the session that could not be checked', async () => {
  const { caId, checks, ended, reads } = withSessions({ faults: 100 });
  await checks.checkCa(caId, { serialNumber: 'A9' });
  expect([ended, reads.isInForce]).toEqual([['A9'], 6]);
});
