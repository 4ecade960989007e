import { LEASE_MS } from '../../domain/lease.ts';

/** Milliseconds, all of them. */
export interface LockTiming {
  /** How long a confirmed renewal lets this process act, from when it was sent. */
  lease: number;
  /** Between two renewals. */
  renew: number;
  /** The server ends the lock's session after this much silence: later than the lease ends, so that two never overlap. */
  idleSession: number;
  /** The same where the network is gone: until unacknowledged bytes and keep-alive probes are given up. Whole seconds. */
  unreachable: number;
  /** Between two attempts of a standby to get the lock. */
  poll: number;
  /** Between two log lines of a standby that waits. */
  report: number;
}

export const lockTiming: LockTiming = {
  lease: LEASE_MS,
  renew: 1_000,
  idleSession: 15_000,
  unreachable: 14_000,
  poll: 250,
  report: 30_000,
};

/**
 * Of the lock's own session. Both ways in which the server gives the lock away count from a time at or after the one at
 * which the last renewal was sent.
 */
export function sessionSettings({ idleSession, unreachable }: LockTiming): string {
  const seconds = Math.max(2, Math.trunc(unreachable / 1_000));
  const interval = Math.max(1, Math.trunc(seconds / 7));
  const count = Math.max(1, Math.trunc(seconds / (2 * interval)));
  return `set idle_session_timeout = ${idleSession}; set statement_timeout = '5s';
    set tcp_user_timeout = ${unreachable}; set tcp_keepalives_idle = ${seconds - interval * count};
    set tcp_keepalives_interval = ${interval}; set tcp_keepalives_count = ${count}`;
}
