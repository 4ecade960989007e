import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { secretBinding } from '../../src/domain/device-key.ts';
import { SYSTEM } from '../../src/domain/values.ts';
import type { DeviceEvent } from '../../src/machines/device-types.ts';
import type { TenantEvent } from '../../src/machines/tenant-types.ts';
import { parseSessionToken, sessionCredentials } from '../../src/protocol/session-token.ts';
import { signingKey } from '../../src/protocol/signature.ts';
import { Device } from '../edges/mqtt/client.ts';
import type { TestDevice } from '../edges/mqtt/edge-harness.ts';
import { eventually } from '../support/clock.ts';
import { mqttPortOf, rawClientOptions, readCounter } from '../support/raw-device.ts';
import { runningClock, startService, type TestService } from '../support/service.ts';

interface Refused {
  name: string;
  code: string;
  session: { device_id: string; tenant_id: string; client_id: string; now: number; device_secret: string };
  message: string;
}

const file = readFileSync(new URL('../vectors/proto-3.1.json', import.meta.url), 'utf8');
const { refusals } = JSON.parse(file) as { refusals: Refused[] };
/** Time only moves forward. */
const inTime = [...refusals].sort((a, b) => a.session.now - b.session.now);

describe('the refusals of the test vectors, over MQTT', () => {
  let at: TestService;

  beforeAll(async () => {
    const clock = runningClock();
    clock.set((inTime[0]?.session.now ?? 0) - 60_000);
    at = await startService({}, { clock });
  });
  afterAll(() => at.stop());

  /** The device of the vector with its tenant, as if both had been registered. */
  async function made({ device_id: id, tenant_id: tenantId, device_secret: secret }: Refused['session']) {
    const { actors, users, seal, newId } = at.services;
    const now = at.clock.now();
    const subject = { iss: 'vectors', sub: tenantId, email: null, emailVerified: false, createdAt: now };
    const owner = await users.findOrCreate({ id: newId(), ...subject });
    const tenant: TenantEvent = {
      type: 'register',
      at: now,
      tenant: { id: tenantId, name: 'Vector', slug: tenantId, tier: 'free' },
      ownerId: owner.id,
    };
    await actors.create({ kind: 'tenant', id: tenantId }, tenant);
    const place = { deviceType: 'light', category: null, name: null, homeId: null, roomId: null, metadata: {} };
    const device: DeviceEvent = {
      type: 'register',
      at: now,
      by: SYSTEM,
      device: { id, tenantId, signingAlg: 'hmac-sha256', ...place },
      key: {
        keyVersion: 1,
        signingAlg: 'hmac-sha256',
        sealedSecret: seal(secret, secretBinding(id, 1)),
        publicKey: null,
        createdAt: now,
      },
      manifest: null,
    };
    await actors.create({ kind: 'device', id }, device);
    return { deviceId: id, tenantId, secret, alg: 'hmac-sha256', keyVersion: 1 } satisfies TestDevice;
  }

  it.each(inTime)('$name gets $code', async ({ code, session, message }) => {
    const device = await made(session);
    const token = parseSessionToken(session.client_id);
    if (token === null) throw new Error('no session token');
    const key = signingKey('hmac-sha256', device.secret);
    at.clock.set(token.timestamp);
    const credentials = sessionCredentials({ ...device, key }, token.timestamp, token.nonce);
    const speaker = await Device.connect(rawClientOptions(at), device, mqttPortOf(at), credentials);
    await speaker.listen();
    at.clock.set(session.now);
    const counter = () => readCounter(at, 'mqtt_refusals_total', `"${code}"`);
    const before = await counter();
    await speaker.mqtt.publishAsync(speaker.topic('state'), message, { qos: 1 });
    expect(await counter()).toBe(before + 1);
    // No error message is sent to a client that did not sign the message.
    if (code !== 'SIGNATURE_INVALID') {
      const notified = await eventually(() => speaker.received[0]);
      expect(notified).toMatchObject({ type: 'error', payload: { code, message_id: JSON.parse(message).message_id } });
    }
    const kept = at.services.actors.peek({ kind: 'device', id: device.deviceId });
    expect(kept?.snapshot.context.live).toMatchObject({ state: {}, stateVersion: 0 });
    speaker.mqtt.end(true);
  });
});
