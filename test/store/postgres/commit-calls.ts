import type { DurableOutput, RowOutput } from '../../../src/machines/outputs.ts';
import type { deviceCommit } from '../../support/actor-commits.ts';
import type { Backend } from '../../support/store.ts';

export const outputTo = (id: string): DurableOutput => ({
  type: 'actor.tell',
  to: { kind: 'command', id },
  event: { type: 'device.revoked', deviceId: id },
});

export const keyPut = (deviceId: string, keyVersion: number): RowOutput => ({
  type: 'key.put',
  deviceId,
  key: { keyVersion, signingAlg: 'hmac-sha256', sealedSecret: `sealed ${keyVersion}`, publicKey: null, createdAt: 1 },
});

/** Short forms of the calls that the suites of commits make on the store of `backend`. */
export function commitCalls(backend: () => Backend) {
  const actors = () => backend().store.actors;
  const devices = () => backend().store.devices;
  const commitAll = (...commits: ReturnType<typeof deviceCommit>[]) => actors().commit(commits);
  const load = async (id: string) => (await actors().load('device', [id]))[0];
  const outboxOf = async (id: string) =>
    (await actors().pendingOutbox(10_000, 0)).filter((row) => row.from.id === id).map((row) => [row.version, row.n]);
  const timersOf = async (id: string) =>
    (await actors().dueTimers(Number.MAX_SAFE_INTEGER, 10_000)).filter((timer) => timer.ref.id === id);
  return { actors, devices, commitAll, load, outboxOf, timersOf };
}
