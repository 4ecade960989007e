import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { keyId } from '../../src/domain/sealing.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { runCliInProcess } from '../support/cli.ts';
import { eventually } from '../support/clock.ts';
import { oneDeployment } from '../support/deployment.ts';
import { connect, register, waitForCommand } from '../support/device.ts';
import { type ApiClient, type ApiResponse, startService, type TestService } from '../support/service.ts';
import { freePorts, type Ports, serve } from '../support/spawn-service.ts';

const names = ['MASTER_KEY', 'TOKEN_SIGNING_KEY', 'DEVICE_SIGNING_KEY'] as const;
type Keys = Record<(typeof names)[number], string>;

const privateJwk = (): string => JSON.stringify(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }));
const newKeys = (): Keys => ({
  MASTER_KEY: randomBytes(32).toString('base64'),
  TOKEN_SIGNING_KEY: privateJwk(),
  DEVICE_SIGNING_KEY: privateJwk(),
});
const as = (suffix: '' | '_NEXT' | '_PREVIOUS', keys: Keys): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`${name}${suffix}`, keys[name]]));
const idOf = ({ MASTER_KEY }: Keys): string => keyId(Buffer.from(MASTER_KEY, 'base64'));
const publicOf = (jwk: string): string => (JSON.parse(jwk) as { x: string }).x;

// The order of docs/operations.md, "Change the keys".
oneDeployment('a change of all keys, twice', (deployment) => {
  const [first, second, third] = [newKeys(), newKeys(), newKeys()];
  let ports: Ports;
  let at: TestService | undefined;
  let owner: ApiClient & { homeId: string };
  let firstToken: string;
  const devices: { id: string; device: Device }[] = [];
  /** Registered with the first keys, and not connected before it is needed. */
  const absent: ApiResponse['body'][] = [];
  let registration: { headers: Record<string, string>; body: object; answer: ApiResponse };
  let level = 0;

  async function restart(...keys: Record<string, string>[]): Promise<TestService> {
    await at?.stop();
    at = undefined;
    at = await startService(Object.assign({ ...deployment().env, ...ports }, ...keys));
    return at;
  }
  const service = (): TestService => {
    if (at === undefined) throw new Error('the service does not run');
    return at;
  };
  async function connectLight(registered: ApiResponse['body']): Promise<void> {
    const device = await connect(registered, {
      state: { brightness: 0 },
      commands: { set_brightness: (params) => ({ state: { brightness: params.level ?? 0 } }) },
    });
    devices.push({ id: registered.device_id, device });
  }
  /** Every device has signed in to this process and carries out a command. */
  async function allRespond(): Promise<void> {
    for (const { id } of devices) {
      await eventually(async () => (await owner.get(`/v1/devices/${id}`)).body.device.online);
      level = (level % 100) + 1;
      const { body } = await owner.post(`/v1/device/${id}/command`, { action: 'set_brightness', params: { level } });
      await waitForCommand(owner, body.command_id, ({ status }) => status === 'succeeded');
    }
  }
  async function ownerWithNewToken(): Promise<void> {
    const { homeId } = owner;
    owner = { ...service().api(await service().token('ada')), homeId };
  }
  async function rekey() {
    const token = await service().token('operator', { scope: PLATFORM_SCOPE });
    return runCliInProcess(['rekey'], { url: service().url, token });
  }
  const announced = () => service().services.settings.cloudPublicKeys;
  const inJwks = async (): Promise<string[]> =>
    (await service().api().get('/.well-known/jwks.json')).body.keys.map(({ x }: { x: string }) => x);

  beforeAll(async () => {
    ports = await freePorts();
    await restart(as('', first));
    owner = await service().owner('ada');
    firstToken = owner.token;
    for (const signing_alg of ['hmac-sha256', 'ed25519']) {
      await connectLight(await register(owner, { signing_alg }));
      absent.push(await register(owner, { signing_alg }));
    }
    const headers = { 'idempotency-key': 'with-the-first-keys' };
    const body = { device_type: 'smart_light', home_id: owner.homeId };
    registration = { headers, body, answer: await owner.post('/v1/device/register', body, headers) };
    expect(registration.answer.status).toBe(201);
  });
  afterAll(async () => {
    await Promise.all(devices.map(({ device }) => device.close()));
    await at?.stop();
  });

  it('announces the next keys without using them', async () => {
    await restart(as('', first), as('_NEXT', second));
    expect(announced()).toEqual([publicOf(first.DEVICE_SIGNING_KEY), publicOf(second.DEVICE_SIGNING_KEY)]);
    expect(await inJwks()).toEqual([publicOf(first.TOKEN_SIGNING_KEY), publicOf(second.TOKEN_SIGNING_KEY)]);
    await allRespond();
    expect((await owner.get('/v1/auth/me')).status).toBe(200);
  });

  it('shuts out no device, no token and no stored answer when the next keys are used', async () => {
    await restart(as('', second), as('_PREVIOUS', first));
    expect(announced()).toEqual([publicOf(second.DEVICE_SIGNING_KEY), publicOf(first.DEVICE_SIGNING_KEY)]);
    expect(await inJwks()).toEqual([publicOf(second.TOKEN_SIGNING_KEY), publicOf(first.TOKEN_SIGNING_KEY)]);
    await allRespond();
    // The token of the first key, and the answer that it encrypted.
    const repeated = await owner.post('/v1/device/register', registration.body, registration.headers);
    expect(repeated.body).toEqual(registration.answer.body);
  });

  it('lets a device sign in that was never announced the new key', async () => {
    const ed25519 = absent.find(({ signing_alg }) => signing_alg === 'ed25519');
    expect(ed25519.cloud_public_keys).toEqual([publicOf(first.DEVICE_SIGNING_KEY)]);
    await connectLight(ed25519);
    await allRespond();
  });

  it('encrypts all secrets again while the service runs, and reports that the previous key is no longer needed', async () => {
    const { code, stderr } = await rekey();
    expect([code, stderr]).toEqual([
      0,
      expect.stringContaining(`MASTER_KEY_PREVIOUS (${idOf(first)}) is no longer needed for stored secrets.`),
    ]);
    await allRespond();
  });

  it('stops signing with the first device key, which it still announces', async () => {
    const { kty, crv, x } = JSON.parse(first.DEVICE_SIGNING_KEY);
    await restart(as('', second), { DEVICE_SIGNING_KEY_PREVIOUS: JSON.stringify({ kty, crv, x }) });
    expect(announced()).toEqual([publicOf(second.DEVICE_SIGNING_KEY), publicOf(first.DEVICE_SIGNING_KEY)]);
    await ownerWithNewToken();
    await allRespond();
  });

  it('goes on without the first keys, whose tokens are no longer valid', async () => {
    await restart(as('', second), as('_NEXT', third));
    expect((await service().api(firstToken).get('/v1/auth/me')).status).toBe(401);
    await ownerWithNewToken();
    await allRespond();
    const repeated = await owner.post('/v1/device/register', registration.body, registration.headers);
    expect(repeated.body).toEqual(registration.answer.body);
  });

  it('refuses to start without a key that secrets name, and names it', async () => {
    await service().stop();
    at = undefined;
    const env = { ...deployment().env, ...as('', third), LOG_LEVEL: 'error' };
    const refused = await serve({ ...deployment(), env }, ports).exited;
    expect(refused.code).not.toBe(0);
    const output = refused.stdout + refused.stderr;
    expect(output).toContain('MASTER_KEY_PREVIOUS does not fit the database');
    expect(output).toContain(`encrypted with the master key ${idOf(second)} (3 device secrets`);
    expect(output).toContain(`MASTER_KEY is the key ${idOf(third)}`);
    expect(output).not.toContain(third.MASTER_KEY.slice(0, 20));
  });

  it('shuts out no device in the second change', async () => {
    await restart(as('', third), as('_PREVIOUS', second));
    await ownerWithNewToken();
    await allRespond();
    expect(await rekey()).toMatchObject({ code: 0 });
    await restart(as('', third));
    await connectLight(absent.find(({ signing_alg }) => signing_alg === 'hmac-sha256'));
    await allRespond();
    expect(announced()).toEqual([publicOf(third.DEVICE_SIGNING_KEY)]);
    expect(await rekey()).toMatchObject({ code: 0, stderr: expect.stringContaining('encrypted again: 0\n') });
  });

  it('starts without a key that is declared lost, and refuses the device whose secret it encrypted', async () => {
    const fourth = newKeys();
    await restart(as('', fourth), { MASTER_KEYS_LOST: idOf(third) });
    await ownerWithNewToken();
    const [hmac, ed25519] = devices;
    await eventually(async () => (await owner.get(`/v1/devices/${ed25519?.id}`)).body.device.online);
    const counted = await rekey();
    expect([counted.code, counted.stderr]).toEqual([
      1,
      expect.stringContaining('secrets whose master key is not configured: '),
    ]);
    const { body } = await owner.post(`/v1/device/${hmac?.id}/rotate-secret`);
    expect(body.new_secret).toHaveLength(43);
  });
});
