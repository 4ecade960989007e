import { setTimeout as after } from 'node:timers/promises';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Services } from '../../operations/operation.ts';
import type { DeviceSession } from './device-session.ts';

/** What the checks need of a session. */
export type CheckedSession = Pick<DeviceSession, 'certificate' | 'deviceId' | 'end' | 'ended' | 'tenantId'>;

export interface CertificateCheckParts {
  store: { deviceCas: Pick<Services['store']['deviceCas'], 'find' | 'isInForce'> };
  /** The open sessions of devices. */
  sessions(): Iterable<CheckedSession>;
  log: Log;
  retry?: BackoffLimits;
}

const RETRY: BackoffLimits = { firstMs: 500, maxMs: 5_000 };
/** With the delays of `RETRY` the last one is 12.5 s after the first one. */
const ATTEMPTS = 6;

/**
 * Ends open sessions whose certificate, or the CA of it, is no longer valid. While the store is unavailable a check is
 * repeated for a limited time; a session that could not be checked ends after that.
 */
export class CertificateChecks {
  readonly #parts: CertificateCheckParts;

  constructor(parts: CertificateCheckParts) {
    this.#parts = parts;
  }

  /** Reads whether the certificate of one session is valid. Never rejects. */
  async check(session: CheckedSession): Promise<void> {
    const { certificate } = session;
    if (certificate === null) return;
    const { store } = this.#parts;
    const isInForce = await this.#attempt([session], () =>
      store.deviceCas.isInForce(certificate.caId, certificate.serialNumber),
    );
    if (isInForce !== true) session.end('credential');
  }

  /**
   * After a change of a CA, or of the one of its certificates that has `serialNumber`, or of those of the device `deviceId`.
   * One read decides for all sessions of a CA that is inactive or deleted. Never rejects.
   */
  async checkCa(
    caId: Uuid,
    only: { serialNumber?: string | undefined; deviceId?: Uuid | undefined } = {},
  ): Promise<void> {
    const { serialNumber, deviceId } = only;
    const sessions = [...this.#parts.sessions()].filter(
      (session) =>
        session.certificate?.caId === caId &&
        (serialNumber === undefined || session.certificate.serialNumber === serialNumber) &&
        (deviceId === undefined || session.deviceId === deviceId),
    );
    const [first] = sessions;
    if (first === undefined) return;
    if (serialNumber === undefined && deviceId === undefined) {
      // A CA belongs to one tenant.
      const ca = await this.#attempt(sessions, () => this.#parts.store.deviceCas.find(first.tenantId, caId));
      if (ca?.status !== 'active') {
        for (const session of sessions) session.end('credential');
        return;
      }
    }
    // A build that does not send the serial number may have revoked any of them. One read at a time.
    for (const session of sessions) if (!session.ended) await this.check(session);
  }

  /** Null if the store is unavailable for too long, or all sessions have ended. */
  async #attempt<T>(sessions: readonly CheckedSession[], read: () => Promise<T>): Promise<T | null> {
    const { log, retry = RETRY } = this.#parts;
    for (let failures = 0; ; ) {
      try {
        return await read();
      } catch (error) {
        failures += 1;
        if (failures >= ATTEMPTS) {
          log.warn({ err: error, sessions: sessions.length }, 'certificate check failed; ending the sessions');
          return null;
        }
        await after(backoffDelay(failures, retry, 'half'), undefined, { ref: false });
        if (sessions.every(({ ended }) => ended)) return null;
      }
    }
  }
}
