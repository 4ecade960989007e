import { inject } from 'vitest';
import { lockTiming } from '../../src/store/lock/timing.ts';
import { type Deployment, onPostgres } from './deployment.ts';
import { freePorts, newOwner, type ServiceProcess, startProcess } from './process.ts';
import { type Line, startProxy } from './proxy.ts';
import { type Api, apiOf } from './service.ts';
import { watchWrites } from './write-oracle.ts';

/**
 * The times of the lock for a process that is to lose its right to act, short because tests wait for it; the order between
 * them is the product's. A process that loses four seconds before it should ends too early, so one that is to live has
 * `patientLockEnv`.
 */
export const quickLock = { ...lockTiming, lease: 4_000, renew: 400, idleSession: 6_000, unreachable: 5_000, poll: 50 };
export const quickLockEnv = { LOCK_TIMING: JSON.stringify(quickLock) };
/** The product's lease, for a process that takes over and is to live on: it only asks for the lock more often. */
export const patientLockEnv = { LOCK_TIMING: JSON.stringify({ ...lockTiming, poll: quickLock.poll }) };

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
  line: Line;
  first: ServiceProcess;
  second: ServiceProcess;
  /** The same owner of a tenant at the first process and at the second. */
  atFirst: Api & { homeId: string; tenantId: string };
  atSecond: Api;
  close(): Promise<void>;
}

/** Two processes on one PostgreSQL: the first is active and reaches it through a proxy, the second stands by. */
export async function twoProcesses(): Promise<TwoProcesses> {
  const deployment = (await onPostgres()) as Deployment;
  const databaseUrl = deployment.databaseUrl ?? '';
  const line = await startProxy(inject('postgresUrl') ?? '');
  const first = startProcess(deployment, {
    ...quickLockEnv,
    ...(await freePorts()),
    DATABASE_URL: line.through(databaseUrl),
  });
  await first.active;
  const second = startProcess(deployment, { ...patientLockEnv, ...(await freePorts()) });
  const [firstUrl, secondUrl] = await Promise.all([first.listening, second.listening]);
  const atFirst = await newOwner(deployment, (token) => apiOf(firstUrl, token));
  await watchWrites(databaseUrl);
  return {
    ...{ deployment, databaseUrl, line, first, second, atFirst },
    atSecond: apiOf(secondUrl, atFirst.token),
    async close() {
      for (const { pid } of [first, second]) proceed(pid);
      await Promise.all([first.kill(), second.kill()]);
      await line.close();
      await deployment.remove();
    },
  };
}

export const stop = (pid: number): void => void process.kill(pid, 'SIGSTOP');

/** Continues it; one that has ended is left alone. */
export function proceed(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
