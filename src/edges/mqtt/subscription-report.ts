import { setTimeout as after } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Log } from '../../domain/log.ts';
import type { Services } from '../../operations/operation.ts';
import type { DeviceSession } from './device-session.ts';

const RETRY: BackoffLimits = { firstMs: 500, maxMs: 10_000 };

/**
 * Reports the `cmd` subscription, upon which pending commands are written; retries while the store is unavailable. One
 * report runs per session at a time: a subscription during a report triggers another one.
 */
export async function reportSubscription(
  { services, log }: { services: Pick<Services, 'sessions'>; log: Log },
  session: DeviceSession,
): Promise<void> {
  session.unreportedSubscriptions += 1;
  if (session.unreportedSubscriptions > 1) return;
  let failures = 0;
  while (!session.ended && session.commandQos !== null) {
    const reported = session.unreportedSubscriptions;
    try {
      await services.sessions.markSubscribed(session.deviceId, session.clientId);
      if (session.unreportedSubscriptions === reported) break;
    } catch (error) {
      log.warn(
        { err: error, deviceId: session.deviceId },
        'subscription report failed; pending commands wait for the store',
      );
      failures += 1;
      await after(backoffDelay(failures, RETRY), undefined, { ref: false });
    }
  }
  session.unreportedSubscriptions = 0;
}
