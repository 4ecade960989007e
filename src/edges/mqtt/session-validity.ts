import type { DeviceContext } from '../../machines/device-types.ts';
import type { Services } from '../../operations/operation.ts';
import type { Invalidation } from '../../services/invalidation-bus.ts';
import type { CertificateChecks } from './certificate-checks.ts';
import type { DeviceSessionRegistry } from './device-session.ts';
import type { MqttAuthenticator } from './mqtt-authenticator.ts';
import type { MqttUserSession, MqttUserSessions } from './user-session.ts';

export interface SessionValidityParts {
  services: Pick<Services, 'actors' | 'clock' | 'deviceActivity' | 'invalidations'>;
  devices: DeviceSessionRegistry;
  userSessions: MqttUserSessions;
  authenticator: Pick<MqttAuthenticator, 'isCredentialValid'>;
  certificateChecks: Pick<CertificateChecks, 'checkCa'>;
}

const CHECK_INTERVAL_MS = 1_000;

/** Whether user sessions that an invalidation does not name may have lost their credential. */
const endsCredentials = {
  ...{ key: true, token: true, session: true },
  ...{ user: false, presented: false, groups: false, ca: false, flags: false },
} satisfies Record<Invalidation['about'], boolean>;

/** Ends sessions when their key, certificate, credential or time ends, or their device or tenant does. */
export class SessionValidity {
  readonly #parts: SessionValidityParts;
  #unsubscribes: readonly (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: SessionValidityParts) {
    this.#parts = parts;
  }

  /** Subscribes to the events that end sessions, and checks the sessions every second. */
  start(): void {
    this.#unsubscribes = this.#subscribe();
    this.#timer = setInterval(() => this.#endExpired(), CHECK_INTERVAL_MS).unref();
  }

  stopTimer(): void {
    clearInterval(this.#timer);
  }

  unsubscribe(): void {
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
  }

  /**
   * A session lasts as long as the key that opened it. A session can still be open at a reinstatement: if the outcome of
   * the revocation's commit was unknown, no `session.end` was emitted.
   */
  keyChanged({ fixed: { id, keyVersion, grace } }: DeviceContext): void {
    const session = this.#parts.devices.get(id);
    if (session === undefined || session.keyVersion === keyVersion) return;
    if (grace?.keyVersion === session.keyVersion) session.expiresAt = Math.min(session.expiresAt, grace.until);
    else session.end('ended');
  }

  #subscribe(): (() => void)[] {
    const { devices, userSessions, certificateChecks } = this.#parts;
    const { actors, invalidations, deviceActivity } = this.#parts.services;
    return [
      invalidations.subscribe((invalidation) => {
        if (invalidation.about === 'user') this.#recheckUsers((session) => session.userId === invalidation.id);
        else if (invalidation.about === 'ca') void certificateChecks.checkCa(invalidation.id, invalidation);
        else if (endsCredentials[invalidation.about]) this.#recheckUsers();
      }),
      actors.subscribe('session.end', ({ tenantId, deviceId, keyVersion }) => {
        const session = devices.get(deviceId);
        // Without a key version, the device itself has ended.
        if (keyVersion === undefined) deviceActivity.remove({ tenantId, deviceId });
        if (keyVersion === undefined || session?.keyVersion === keyVersion) session?.end('ended');
      }),
      actors.subscribe('tenant.changed', ({ tenantId, suspended }) => {
        if (!suspended) return;
        for (const session of devices.all()) if (session.tenantId === tenantId) session.end('suspended');
        for (const session of userSessions.ofTenant(tenantId)) session.end('suspended');
      }),
      actors.subscribeTransitions(({ ref, snapshot }, { type }) => {
        if (ref.kind !== 'device' || (type !== 'rotate' && type !== 'reinstate')) return;
        this.keyChanged(snapshot.context as DeviceContext);
      }),
    ];
  }

  #endExpired(): void {
    const now = this.#parts.services.clock.now();
    for (const session of this.#parts.devices.all()) if (session.expiresAt <= now) session.end('expired');
    this.#recheckUsers();
  }

  /** Ends user sessions whose credential is no longer valid. */
  #recheckUsers(matches: (session: MqttUserSession) => boolean = () => true): void {
    for (const session of this.#parts.userSessions.all()) {
      if (!matches(session)) continue;
      void this.#parts.authenticator.isCredentialValid(session).then((isValid) => {
        if (!isValid) session.end('credential');
      });
    }
  }
}
