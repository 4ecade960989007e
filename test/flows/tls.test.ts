import { request } from 'node:https';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { eventually } from '../support/clock.ts';
import { connect } from '../support/device.ts';
import { startService, type TestService } from '../support/service.ts';

const file = (name: string) => fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url));

let at: TestService;

beforeAll(async () => {
  at = await startService({ TLS_CERT: file('localhost.crt'), TLS_KEY: file('localhost.key'), MQTT_TLS_PORT: '0' });
});
afterAll(() => at.stop());

/** The certificate of the test is self-signed, so no client trusts it by default. */
function sendRequest(
  path: string,
  token: string,
  body?: object,
): Promise<{ status: number; body: Record<string, string> }> {
  return new Promise((resolve, reject) => {
    const requested = request(
      at.url + path,
      {
        method: body ? 'POST' : 'GET',
        rejectUnauthorized: false,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      },
      (response) => {
        let text = '';
        response.on('data', (data) => {
          text += data;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) }));
      },
    );
    requested.on('error', reject);
    requested.end(body && JSON.stringify(body));
  });
}

describe('with a certificate', () => {
  it('HTTP is HTTPS, MQTT has a TLS listener, and a registration returns both', async () => {
    expect(at.url).toMatch(/^https:/);
    const token = await at.token('owner');
    expect((await sendRequest('/v1/tenant/register', token, { tenant_name: 'T' })).status).toBe(201);
    const home = await sendRequest('/v1/homes', token, { home_name: 'Home' });
    const registered = await sendRequest('/v1/device/register', token, {
      device_type: 'smart_light',
      home_id: home.body.id,
    });
    expect(registered.status).toBe(201);
    expect(registered.body.api_base_url).toBe(`${at.url}/v1`);
    expect(registered.body.mqtt_url).toMatch(/^mqtts:/);
    const device = await connect(registered.body, { state: { on: true }, tls: { rejectUnauthorized: false } });
    await eventually(() => device.waiting === 0);
    const socket = new WebSocket(`${at.url.replace('https', 'wss')}/ws/state?token=${token}&snapshot=1`, {
      rejectUnauthorized: false,
    });
    const update = await new Promise<string>((resolve, reject) => {
      socket.once('message', (data) => resolve(String(data)));
      socket.once('error', reject);
    });
    expect(JSON.parse(update)).toMatchObject({ type: 'state_update', state: { on: true } });
    socket.close();
    await device.close();
  });
});
