import { inject } from 'vitest';
import { lockTiming } from '../../src/store/lock/lock-timing.ts';
import { type Deployment, makePostgresDeployment } from './deployment.ts';
import { type ApiClient, makeApiClient } from './service.ts';
import { freePorts, newOwner, type ServiceProcess, startServiceProcess } from './spawn-service.ts';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';
import { watchWrites } from './write-oracle.ts';

/**
 * Lock timing for a process that is to lose the lock, short because tests wait for it; the relations between the values
 * are the product's. A process that is delayed by four seconds loses the lock too early, so a process that is to stay
 * active uses `defaultLeaseLockEnv`.
 */
export const quickLock = { ...lockTiming, lease: 4_000, renew: 400, idleSession: 6_000, unreachable: 5_000, poll: 50 };
export const quickLockEnv = { LOCK_TIMING: JSON.stringify(quickLock) };
/** The product's lease, for a process that takes over and stays active: it only polls for the lock more often. */
export const defaultLeaseLockEnv = { LOCK_TIMING: JSON.stringify({ ...lockTiming, poll: quickLock.poll }) };

/** Result of a request: its status, or null without a response. */
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
  /** The owner of one tenant, as a client of the first and of the second process. */
  atFirst: ApiClient & { homeId: string; tenantId: string };
  atSecond: ApiClient;
  close(): Promise<void>;
}

/** Two processes on one PostgreSQL: the first is active and connects through a proxy, the second is a standby. */
export async function twoProcesses(): Promise<TwoProcesses> {
  const deployment = (await makePostgresDeployment()) as Deployment;
  const databaseUrl = deployment.databaseUrl ?? '';
  const proxy = await startTcpProxy(inject('postgresUrl') ?? '');
  const first = startServiceProcess(deployment, {
    ...quickLockEnv,
    ...(await freePorts()),
    DATABASE_URL: proxy.proxiedUrl(databaseUrl),
  });
  await first.active;
  const second = startServiceProcess(deployment, { ...defaultLeaseLockEnv, ...(await freePorts()) });
  const [firstUrl, secondUrl] = await Promise.all([first.listening, second.listening]);
  const atFirst = await newOwner(deployment, (token) => makeApiClient(firstUrl, token));
  await watchWrites(databaseUrl);
  return {
    ...{ deployment, databaseUrl, proxy, first, second, atFirst },
    atSecond: makeApiClient(secondUrl, atFirst.token),
    async close() {
      for (const { pid } of [first, second]) resumeProcess(pid);
      await Promise.all([first.kill(), second.kill()]);
      await proxy.close();
      await deployment.remove();
    },
  };
}

export const suspendProcess = (pid: number): void => void process.kill(pid, 'SIGSTOP');

/** Resumes a process; one that has ended is ignored. */
export function resumeProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
