import { LEASE_MS } from '../../domain/lease.ts';

/** All values are in milliseconds. */
export interface LockTiming {
  /** Validity of a confirmed renewal, counted from when it was sent. */
  lease: number;
  /** Interval of renewals. */
  renew: number;
  /**
   * Idle time after which the server ends the lock's session: longer than the lease, so that two owners never overlap.
   */
  idleSession: number;
  /** The same for a lost network: time until unacknowledged bytes and keep-alive probes are given up. Whole seconds. */
  unreachable: number;
  /** Interval of new connections that check which server they reach; 0 for none. */
  probe: number;
  /** Interval of a standby's attempts to acquire the lock. */
  poll: number;
  /** Interval of a waiting standby's log lines. */
  report: number;
}

export const lockTiming: LockTiming = {
  lease: LEASE_MS,
  renew: 1_000,
  idleSession: 15_000,
  unreachable: 14_000,
  probe: 2_000,
  poll: 250,
  report: 30_000,
};

/** A node among others: its shards are taken over soon after its lease has ended. */
export const sharedLockTiming: Pick<LockTiming, 'idleSession' | 'unreachable'> = {
  idleSession: LEASE_MS + 1_000,
  unreachable: LEASE_MS + 1_000,
};

/**
 * Settings of the lock's session. Both ways in which the server releases the lock count from a time at or after the
 * sending of the last renewal.
 */
export function sessionSettings({ idleSession, unreachable }: LockTiming): string {
  const seconds = Math.max(2, Math.trunc(unreachable / 1_000));
  const interval = Math.max(1, Math.trunc(seconds / 7));
  const count = Math.max(1, Math.trunc(seconds / (2 * interval)));
  return `set idle_session_timeout = ${idleSession}; set statement_timeout = '5s';
    set tcp_user_timeout = ${unreachable}; set tcp_keepalives_idle = ${seconds - interval * count};
    set tcp_keepalives_interval = ${interval}; set tcp_keepalives_count = ${count}`;
}
