import { inject } from 'vitest';
import { lockTiming } from '../../src/store/lock/lock-timing.ts';
import { type Deployment, makePostgresDeployment } from './deployment.ts';
import { type ApiClient, makeApiClient } from './service.ts';
import { freePorts, newOwner, type ServiceProcess, startServiceProcess } from './spawn-service.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { watchWrites } from './write-oracle.ts';

/**
 * The times of the lock for a process that is to lose its right to act, short because tests wait for it; the order between
 * them is the product's. A process that loses four seconds before it should ends too early, so one that is to live has
 * `patientLockEnv`.
 */
export const quickLock = { ...lockTiming, lease: 4_000, renew: 400, idleSession: 6_000, unreachable: 5_000, poll: 50 };
export const quickLockEnv = { LOCK_TIMING: JSON.stringify(quickLock) };
/** The product's lease, for a process that takes over and is to live on: it only asks for the lock more often. */
export const defaultLeaseLockEnv = { LOCK_TIMING: JSON.stringify({ ...lockTiming, poll: quickLock.poll }) };

/** What became of a request: its status, or null where no answer came. */
export type Outcome = number | null;

export const outcomeOf = (answer: Promise<{ status: number }>): Promise<Outcome> =>
  answer.then(
    ({ status }) => status,
    () => null,
  );

export interface TwoProcesses {
  deployment: Deployment;
  databaseUrl: string;
  /** Between the first process and its database. */
  proxy: TcpProxy;
  first: ServiceProcess;
  second: ServiceProcess;
  /** The same owner of a tenant at the first process and at the second. */
  atFirst: ApiClient & { homeId: string; tenantId: string };
  atSecond: ApiClient;
  close(): Promise<void>;
}

/** Two processes on one PostgreSQL: the first is active and reaches it through a proxy, the second stands by. */
export async function twoProcesses(): Promise<TwoProcesses> {
  const deployment = (await makePostgresDeployment()) as Deployment;
  const databaseUrl = deployment.databaseUrl ?? '';
  const line = await startTcpProxy(inject('postgresUrl') ?? '');
  const first = startServiceProcess(deployment, {
    ...quickLockEnv,
    ...(await freePorts()),
    DATABASE_URL: line.proxiedUrl(databaseUrl),
  });
  await first.active;
  const second = startServiceProcess(deployment, { ...defaultLeaseLockEnv, ...(await freePorts()) });
  const [firstUrl, secondUrl] = await Promise.all([first.listening, second.listening]);
  const atFirst = await newOwner(deployment, (token) => makeApiClient(firstUrl, token));
  await watchWrites(databaseUrl);
  return {
    ...{ deployment, databaseUrl, proxy: line, first, second, atFirst },
    atSecond: makeApiClient(secondUrl, atFirst.token),
    async close() {
      for (const { pid } of [first, second]) resumeProcess(pid);
      await Promise.all([first.kill(), second.kill()]);
      await line.close();
      await deployment.remove();
    },
  };
}

export const suspendProcess = (pid: number): void => void process.kill(pid, 'SIGSTOP');

/** Continues it; one that has ended is left alone. */
export function resumeProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
