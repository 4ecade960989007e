import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import type { DeviceCa } from '../../src/domain/device-ca.ts';
import { type Certificate, parseCertificate } from '../../src/protocol/certificate.ts';
import { packets } from '../edges/mqtt/client.ts';
import { issue, makeAuthority, type TestCertificate } from '../support/certificates.ts';
import { eventually } from '../support/clock.ts';
import { register, waitForCommand } from '../support/device.ts';
import { readDocument } from '../support/documented-session.ts';
import { nodeEnv, nodeFlags } from '../support/node-flags.ts';
import { type CertificateFiles, OpensslCa } from '../support/openssl-ca.ts';
import { startService, type TestService } from '../support/service.ts';

const { openssl, mosquitto_pub, mosquitto_sub } = inject('programs');
const hasPrograms = [openssl, mosquitto_pub, mosquitto_sub].every((path) => path !== null);
const file = (name: string) => fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url));
/** Exit code of the mosquitto clients after a CONNACK with return code 5. */
const NOT_AUTHORIZED = 5;

type Owner = Awaited<ReturnType<TestService['owner']>>;

let at: TestService;
let port: string;
let owner: Owner;
let folder: string;
let ca: OpensslCa;
let caId: string;
let names = 0;
const ended: (() => void)[] = [];

describe.runIf(hasPrograms)('devices with certificates of a CA made by openssl', () => {
  beforeAll(async () => {
    // The REST API has the same self-signed certificate as the MQTT listener.
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    at = await startService({ TLS_CERT: file('localhost.crt'), TLS_KEY: file('localhost.key'), MQTT_TLS_PORT: '0' });
    folder = mkdtempSync(join(tmpdir(), 'twinkeep-ca-'));
    owner = await at.owner();
    port = new URL((await register(owner)).mqtt_url).port;
    ca = new OpensslCa(folder, 'Test CA');
    caId = await registered(owner, ca);
  });
  afterAll(async () => {
    await at.stop();
    delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    const body = { status: 'active', registration: { home_id: owner.homeId, device_type: 'smart_light' } };
    expect((await owner.patch(`/v1/cas/${caId}`, body)).status).toBe(200);
  });
  afterEach(() => {
    for (const end of ended.splice(0)) end();
  });

  describe('the registration of a CA', () => {
    it('needs a certificate for the code by the key of the CA', async () => {
      const mine = new OpensslCa(folder, 'Another CA');
      const other = new OpensslCa(folder, 'Foreign CA');
      const code = await newCode(owner);
      const attempt = (proof: CertificateFiles) => registerCa(owner, mine, proof);
      expect(await attempt(mine.issue('not the code'))).toMatchObject({ status: 400 });
      expect(await attempt(other.issue(code))).toMatchObject({ status: 400 });
      // A code of another tenant.
      expect(await attempt(mine.issue(await newCode(await at.owner())))).toMatchObject({ status: 400 });
      expect(await attempt(mine.issue(code))).toMatchObject({ status: 201 });
      expect(await attempt(mine.issue(code))).toMatchObject({ status: 400 });
      expect(await attempt(mine.issue(await newCode(owner)))).toMatchObject({
        status: 201,
        body: { status: 'renewed' },
      });
    });

    it('is not prevented by 32 CAs of other tenants with the same subject; its devices name the tenant', async () => {
      const mine = new OpensslCa(folder, 'Crowded CA');
      const { subjectHash } = parseCertificate(mine.pem) as Certificate;
      for (let n = 0; n < 32; n += 1) await insertForeignCa(subjectHash);
      const { status, body } = await registerCa(owner, mine, mine.issue(await newCode(owner)));
      expect([status, body.username_needed]).toEqual([201, true]);
      const registration = { home_id: owner.homeId, device_type: 'smart_light' };
      expect((await owner.patch(`/v1/cas/${body.id}`, { registration })).status).toBe(200);
      const name = newName();
      const files = mine.issue(name);
      expect(await publish(files, 'state', { state: { on: true } })).toBe(NOT_AUTHORIZED);
      expect(await publish(files, 'state', { state: { on: true } }, ['-u', owner.tenantId])).toBe(0);
      expect(await deviceNamed(name)).toMatchObject({ name });
    });

    it('refuses a certificate that is none of a CA', async () => {
      const plain = new OpensslCa(folder, 'Plain', 'plain');
      const { status, body } = await registerCa(owner, plain, plain.issue(await newCode(owner)));
      expect([status, body.errors?.[0]?.path]).toEqual([400, 'certificate']);
    });
  });

  it('a device is registered at its first message, and its state is in the twin', async () => {
    const name = newName();
    const files = ca.issue(name);
    expect(await publish(files, 'state', { state: { on: true, brightness: 40 } })).toBe(0);
    const device = await deviceNamed(name);
    expect(device).toMatchObject({ device_type: 'smart_light', home_id: owner.homeId, name });
    expect((await read(device.id)).state).toEqual({ on: true, brightness: 40 });
    // The same device again, by its full topic and with numbers.
    const numbered = { message_id: 'm1', sequence_number: 9, payload: { state: { on: false } } };
    const topic = `proto/${owner.tenantId}/device/${device.id}/state`;
    expect(await mosquitto('mosquitto_pub', files, ['-t', topic, '-q', '1', '-m', JSON.stringify(numbered)])).toBe(0);
    expect((await read(device.id)).state).toEqual({ on: false, brightness: 40 });
    // A repetition is acknowledged, and has no effect.
    await publish(files, 'state', { state: { brightness: 41 } });
    expect(await mosquitto('mosquitto_pub', files, ['-t', topic, '-q', '1', '-m', JSON.stringify(numbered)])).toBe(0);
    expect((await read(device.id)).state).toEqual({ on: false, brightness: 41 });
    const { body } = await owner.get(`/v1/devices/${device.id}/certificates`);
    expect(body.subjects).toMatchObject([{ ca_id: caId, common_name: name, bound_by: null }]);
    expect(body.certificates).toMatchObject([{ serial_number: ca.serialOf(files), status: 'valid' }]);
    const audit = await owner.get(`/v1/audit?subject=device:${device.id}`);
    expect(audit.body.entries).toMatchObject([{ action: 'registerDeviceByCertificate', via: 'mqtt' }]);
  });

  it('a renewed certificate with the same common name is the same device', async () => {
    const name = newName();
    await publish(ca.issue(name), 'state', { state: { on: true } });
    expect(await publish(ca.issue(name), 'state', { state: { on: false } })).toBe(0);
    const { id } = await deviceNamed(name);
    expect((await read(id)).state).toEqual({ on: false });
    expect((await owner.get(`/v1/devices/${id}/certificates`)).body.certificates).toHaveLength(2);
  });

  it('a CA is renewed by the command line while its devices stay connected', async () => {
    const mine = new OpensslCa(folder, 'Renewable CA');
    const id = await registered(owner, mine);
    const registration = { home_id: owner.homeId, device_type: 'smart_light' };
    expect((await owner.patch(`/v1/cas/${id}`, { registration })).status).toBe(200);
    const name = newName();
    const files = mine.issue(name);
    await publish(files, 'state', { state: { on: true } });
    const device = await deviceNamed(name);
    const subscriber = subscribe(files, ['-t', 'proto/self/cmd', '-C', '1']);
    await eventually(() => at.services.sessions.get(device.id)?.subscribed);
    const before = (await owner.get(`/v1/cas/${id}`)).body.ca;
    const next = mine.renewed(60);
    const proof = mine.issue(await newCode(owner));
    expect((await cli(['cas', 'renew', next, proof.cert])).stdout.trim()).toBe(id);
    const after = (await owner.get(`/v1/cas/${id}`)).body.ca;
    expect({ ...after, certificate: null, fingerprint: null, not_after: null }).toEqual({
      ...{ ...before, certificate: null, fingerprint: null, not_after: null },
    });
    expect([after.certificate, after.fingerprint === before.fingerprint]).toEqual([readFileSync(next, 'utf8'), false]);
    // The connection that was opened before gets the command.
    const { body } = await owner.post(`/v1/device/${device.id}/command`, { action: 'turn_off' });
    expect(JSON.parse(await subscriber.output).payload.command_id).toBe(body.command_id);
    expect(await publish(files, 'state', { state: { on: false } })).toBe(0);
    expect((await read(device.id)).state).toEqual({ on: false });
    // Another tenant has the proof as well, and not the CA.
    const other = await at.owner();
    const foreign = await registerCa(other, { pem: readFileSync(next, 'utf8') }, mine.issue(await newCode(other)));
    expect([foreign.status, (await other.get('/v1/cas')).body.cas]).toEqual([409, []]);
  });

  it('a common name that is unbound ends its connection, is not registered again, and can be another device’s', async () => {
    const name = newName();
    const files = ca.issue(name);
    await publish(files, 'state', { state: { on: true } });
    const { id } = await deviceNamed(name);
    const subscriber = subscribe(files, ['-t', 'proto/self/cmd']);
    await eventually(() => at.services.sessions.get(id)?.subscribed);
    expect((await cli(['cas', 'unbind', caId, id, name])).stdout.trim()).toBe('unbound');
    expect(await subscriber.exit).toBe(NOT_AUTHORIZED);
    expect(await publish(files, 'state', { state: { on: false } })).toBe(NOT_AUTHORIZED);
    expect((await read(id)).state).toEqual({ on: true });
    const other = await register(owner);
    const bind = { ca_id: caId, common_name: name };
    expect((await owner.post(`/v1/devices/${other.device_id}/certificates`, bind)).status).toBe(201);
    expect(await publish(files, 'state', { state: { on: false } })).toBe(0);
    expect((await read(other.device_id)).state).toEqual({ on: false });
    const audit = await owner.get(`/v1/audit?subject=device:${id}&action=unbindCertificate`);
    expect(audit.body.entries).toMatchObject([{ outcome: 'done', via: 'rest' }]);
  });

  it('a command reaches the device, and its acknowledgement the command', async () => {
    const name = newName();
    const files = ca.issue(name);
    await publish(files, 'state', { state: { on: false } });
    const { id } = await deviceNamed(name);
    const subscriber = subscribe(files, ['-t', 'proto/self/cmd', '-C', '1']);
    const { body } = await owner.post(`/v1/device/${id}/command`, { action: 'turn_on' });
    const message = JSON.parse(await subscriber.output);
    expect(message).toMatchObject({ device_id: id, message_type: 'cmd', payload: { action: 'turn_on' } });
    expect(message.signature).toMatch(/^[\w-]{86}$/);
    const ack = { command_id: message.payload.command_id, status: 'succeeded', state: { on: true } };
    expect(await publish(files, 'cmd_ack', ack)).toBe(0);
    await waitForCommand(owner, body.command_id, ({ status }) => status === 'verified' || status === 'succeeded');
    expect((await read(id)).state).toEqual({ on: true });
  });

  it('publishes on its own topics only', async () => {
    const [one, two] = [newName(), newName()];
    await publish(ca.issue(one), 'state', { state: { on: false } });
    const files = ca.issue(two);
    await publish(files, 'state', { state: { on: false } });
    const { id } = await deviceNamed(one);
    const topic = `proto/${owner.tenantId}/device/${id}/state`;
    const result = await mosquitto('mosquitto_pub', files, ['-t', topic, '-q', '1', '-m', '{"state":{"on":true}}']);
    expect(result).not.toBe(0);
    expect((await read(id)).state).toEqual({ on: false });
  });

  it('a device that has a key signs in by certificate only after a person has bound it', async () => {
    const device = await register(owner);
    await owner.patch(`/v1/cas/${caId}`, { registration: null });
    const files = ca.issue(device.device_id);
    expect(await publish(files, 'state', { state: { on: true } })).toBe(NOT_AUTHORIZED);
    const bind = { ca_id: caId, common_name: device.device_id };
    expect((await owner.post(`/v1/devices/${device.device_id}/certificates`, bind)).status).toBe(201);
    expect(await publish(files, 'state', { state: { on: true } })).toBe(0);
    expect((await read(device.device_id)).state).toEqual({ on: true });
  });

  it('a common name that waits for another user signs in no device under a rule of two people', async () => {
    const careful = await at.owner();
    const own = new OpensslCa(folder, 'Careful CA');
    const id = await registered(careful, own);
    const device = await register(careful);
    expect((await careful.patch('/v1/tenant/policy', { confirm_by: 'another_principal' })).status).toBe(200);
    const bind = { ca_id: id, common_name: device.device_id };
    const asked = await careful.post(`/v1/devices/${device.device_id}/certificates`, bind);
    expect([asked.status, asked.body.code]).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect((await careful.post(`/v1/change-requests/${asked.body.change_id}/approve`)).status).toBe(403);
    const files = own.issue(device.device_id);
    expect(await publish(files, 'state', { state: { on: true } })).toBe(NOT_AUTHORIZED);
    expect((await careful.get(`/v1/devices/${device.device_id}`)).body.device.state).toEqual({});
  });

  describe('is refused, and does not change a twin,', () => {
    const refusesAndKeeps = async (name: string, files: CertificateFiles, more: string[] = []) => {
      expect(await publish(files, 'state', { state: { on: true } }, more)).toBe(NOT_AUTHORIZED);
      const known = await findDevice(name);
      if (known !== undefined) expect((await read(known.id)).state).toEqual({ on: false });
    };
    let name: string;
    let files: CertificateFiles;
    beforeEach(async () => {
      name = newName();
      files = ca.issue(name);
      expect(await publish(files, 'state', { state: { on: false } })).toBe(0);
    });

    it('a certificate that is revoked, also one that was never used', async () => {
      const unused = ca.issue(name);
      for (const one of [files, unused]) {
        const revocation = { serial_number: ca.serialOf(one), reason: 'Lost' };
        expect((await owner.post(`/v1/cas/${caId}/revocations`, revocation)).status).toBe(200);
        await refusesAndKeeps(name, one);
      }
      expect(await publish(ca.issue(name), 'state', { state: { on: true } })).toBe(0);
    });

    it('a certificate that is revoked during its connection, which ends', async () => {
      const subscriber = subscribe(files, ['-t', 'proto/self/cmd']);
      const { id } = await deviceNamed(name);
      await eventually(() => at.services.sessions.get(id)?.subscribed);
      await owner.post(`/v1/cas/${caId}/revocations`, { serial_number: ca.serialOf(files) });
      expect(await subscriber.exit).toBe(NOT_AUTHORIZED);
    });

    it('a device that is revoked, and its certificate also when it is reinstated', async () => {
      const { id } = await deviceNamed(name);
      const subscriber = subscribe(files, ['-t', 'proto/self/cmd']);
      await eventually(() => at.services.sessions.get(id)?.subscribed);
      await confirmed(await owner.post(`/v1/device/${id}/revoke`, {}));
      expect(await subscriber.exit).toBe(NOT_AUTHORIZED);
      await refusesAndKeeps(name, files);
      await confirmed(await owner.post(`/v1/device/${id}/reinstate`, { reason: 'Found' }));
      await refusesAndKeeps(name, files);
      expect(await publish(ca.issue(name), 'state', { state: { on: true } })).toBe(0);
    });

    it('a certificate of an inactive or a deleted CA, whose connections end', async () => {
      const { id } = await deviceNamed(name);
      const subscriber = subscribe(files, ['-t', 'proto/self/cmd']);
      await eventually(() => at.services.sessions.get(id)?.subscribed);
      await owner.patch(`/v1/cas/${caId}`, { status: 'inactive' });
      expect(await subscriber.exit).toBe(NOT_AUTHORIZED);
      await refusesAndKeeps(name, files);
      // Deleted and registered again, it has the same id, and the bindings and revocations that it had.
      await owner.post(`/v1/cas/${caId}/revocations`, { serial_number: ca.serialOf(files) });
      expect((await owner.delete(`/v1/cas/${caId}`)).status).toBe(204);
      await refusesAndKeeps(name, files);
      expect(await registered(owner, ca)).toBe(caId);
      await refusesAndKeeps(name, files);
      expect(await publish(ca.issue(name), 'state', { state: { on: true } })).toBe(0);
    });

    it('a certificate that has expired, or is not valid yet', async () => {
      await refusesAndKeeps(name, ca.issue(name, { from: '20250101000000Z', to: '20250201000000Z' }));
      await refusesAndKeeps(name, ca.issue(name, { from: '20480101000000Z', to: '20480201000000Z' }));
    });

    it('a certificate of an unknown CA, of another CA with the same subject, and the CA itself', async () => {
      const twin = new OpensslCa(mkdtempSync(join(folder, 'twin-')), 'Test CA');
      await refusesAndKeeps(name, twin.issue(name));
      await refusesAndKeeps(name, twin.files);
      await refusesAndKeeps(name, ca.files);
    });

    it('a certificate of the CA of another tenant with the same common name', async () => {
      const other = await at.owner();
      const foreign = new OpensslCa(mkdtempSync(join(folder, 'foreign-')), 'Test CA');
      await registered(other, foreign);
      await refusesAndKeeps(name, foreign.issue(name));
      // With a rule it becomes a device of that tenant.
      const [own] = (await other.get('/v1/cas')).body.cas;
      const registration = { home_id: other.homeId, device_type: 'smart_light' };
      await other.patch(`/v1/cas/${own.id}`, { registration });
      expect(await publish(foreign.issue(name), 'state', { state: { on: true } })).toBe(0);
      const { id } = await deviceNamed(name);
      expect((await read(id)).state).toEqual({ on: false });
      expect((await other.get('/v1/devices')).body.devices).toMatchObject([{ name }]);
    });

    it('a certificate that the certificate of a device has issued', async () => {
      const below = ca.issue(name, {}, files);
      await refusesAndKeeps(name, below);
      const chain = `${below.cert}.chain`;
      writeFileSync(chain, readFileSync(below.cert, 'utf8') + readFileSync(files.cert, 'utf8'));
      await refusesAndKeeps(name, { cert: chain, key: below.key });
    });

    it('a certificate with an unusable common name, or with a serial number that cannot be revoked', async () => {
      const maker = makeAuthority({ commonName: 'Careless CA' });
      const makerId = await registered(owner, { pem: maker.pem } as OpensslCa, (code) => written(issue(maker, code)));
      const registration = { home_id: owner.homeId, device_type: 'smart_light' };
      expect((await owner.patch(`/v1/cas/${makerId}`, { registration })).status).toBe(200);
      const before = (await owner.get('/v1/devices?limit=200')).body.devices.length;
      const refused = [
        issue(maker, 'lamp\u0000'),
        issue(maker, '\ufefflamp'),
        issue(maker, 'lamp', { serial: Buffer.from([0x80, 1]) }),
        issue(maker, 'lamp', { serial: Buffer.alloc(21, 0x11) }),
      ];
      for (const one of refused) {
        const { connack } = await dial(written(one), 'TLSv1.3');
        expect(await connack).toBe(NOT_AUTHORIZED);
      }
      expect((await owner.get('/v1/devices?limit=200')).body.devices).toHaveLength(before);
      expect(await (await dial(written(issue(maker, newName())), 'TLSv1.3')).connack).toBe(0);
    });

    it('the user name of another tenant', async () => {
      const other = await at.owner();
      await refusesAndKeeps(name, files, ['-u', other.tenantId]);
      expect(await publish(files, 'state', { state: { on: true } }, ['-u', owner.tenantId])).toBe(0);
    });
  });

  it('the rule registers no more devices than it may, and only common names of its pattern', async () => {
    const { body } = await owner.get(`/v1/devices?limit=200`);
    const rule = { home_id: owner.homeId, device_type: 'smart_light' };
    await owner.patch(`/v1/cas/${caId}`, { registration: { ...rule, subject_pattern: 'sensor-*' } });
    expect(await publish(ca.issue('lamp-x'), 'state', { state: {} })).toBe(NOT_AUTHORIZED);
    expect(await publish(ca.issue('sensor-x'), 'state', { state: {} })).toBe(0);
    await owner.patch(`/v1/cas/${caId}`, { registration: { ...rule, max_devices: 1 } });
    expect(await publish(ca.issue('sensor-y'), 'state', { state: {} })).toBe(NOT_AUTHORIZED);
    const after = await owner.get(`/v1/devices?limit=200`);
    expect(after.body.devices).toHaveLength(body.devices.length + 1);
    const audit = await owner.get(`/v1/audit?subject=ca:${caId}&action=signInByCertificate`);
    expect(audit.body.entries[0]).toMatchObject({ outcome: 'UNAUTHENTICATED', via: 'mqtt' });
  });

  it('the commands of the device documentation work', async () => {
    const [, section = ''] = /^## Certificates$([\s\S]*?)^## /m.exec(readDocument('docs/devices.md')) ?? [];
    const commands = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block).join('');
    const script = commands
      .replaceAll('-p 8883 --cafile server.pem', `-p ${port} --cafile ${file('localhost.crt')}`)
      // Ends when it has subscribed.
      .replaceAll('mosquitto_sub', 'mosquitto_sub -E');
    const home = mkdtempSync(join(folder, 'docs-'));
    const { stdout } = await promisify(execFile)(
      'bash',
      ['-ec', `twinkeep() { ${cliCommand.join(' ')} "$@"; }\n${script}\ntwinkeep cas`],
      {
        cwd: home,
        env: { ...cliEnv(), HOME: home, HOME_ID: owner.homeId },
      },
    );
    expect(stdout).toContain('Factory CA');
    const { id } = await deviceNamed('lamp-0001');
    expect((await read(id)).state).toEqual({ on: true });
    const { certificates } = (await owner.get(`/v1/devices/${id}/certificates`)).body;
    expect(certificates).toMatchObject([{ common_name: 'lamp-0001', status: 'valid' }]);
  });

  it('a connection ends with the validity of its certificate', async () => {
    const name = newName();
    const hour = 3_600_000;
    const files = ca.issue(name, { from: asnTime(at.clock.now() - hour), to: asnTime(at.clock.now() + hour) });
    await publish(files, 'state', { state: { on: true } });
    const { id } = await deviceNamed(name);
    const subscriber = subscribe(files, ['-t', 'proto/self/cmd']);
    await eventually(() => at.services.sessions.get(id)?.subscribed);
    at.clock.advance(hour + 1_000);
    expect(await subscriber.exit).toBe(NOT_AUTHORIZED);
  });

  describe.each(['TLSv1.2', 'TLSv1.3'] as const)('a resumed session of %s', (version) => {
    it('signs in while the certificate is valid, and not when it is revoked', async () => {
      const name = newName();
      const files = ca.issue(name);
      const first = await dial(files, version);
      expect(await first.connack).toBe(0);
      const ticket = await first.ticket;
      const second = await dial(files, version, ticket);
      expect([second.socket.isSessionReused(), await second.connack]).toEqual([true, 0]);
      await owner.post(`/v1/cas/${caId}/revocations`, { serial_number: ca.serialOf(files) });
      const third = await dial(files, version, ticket);
      expect(await third.connack).toBe(NOT_AUTHORIZED);
      // Without the certificate, the ticket alone is what the client had proved with its key.
      const fourth = await dial(null, version, ticket);
      expect(await fourth.connack).toBe(NOT_AUTHORIZED);
    });
  });
});

const cliCommand = [process.execPath, ...nodeFlags, fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))];
const cliEnv = () => ({
  ...{ ...nodeEnv, HOME: folder, TWINKEEP_URL: at.url, TWINKEEP_TOKEN: owner.token, NODE_TLS_REJECT_UNAUTHORIZED: '0' },
});
/** Rejects if the command fails. */
const cli = (args: readonly string[]) => {
  const [program = '', ...flags] = cliCommand;
  return promisify(execFile)(program, [...flags, ...args], { env: cliEnv() });
};

const newName = (): string => `lamp-${++names}`;

/** `YYYYMMDDHHMMSSZ`. */
const asnTime = (time: number): string => `${new Date(time).toISOString().replaceAll(/[-:T]|\.\d+Z/g, '')}Z`;

async function newCode({ post }: Owner): Promise<string> {
  const { status, body } = await post('/v1/cas/verifications');
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body.verification_code;
}

const registerCa = ({ post }: Owner, one: Pick<OpensslCa, 'pem'>, proof: CertificateFiles) =>
  post('/v1/cas', {
    ...{ name: 'Factory', certificate: one.pem, verification_certificate: readFileSync(proof.cert, 'utf8') },
  });

/** A CA of another tenant, older than those that tests register. */
async function insertForeignCa(subjectHash: string): Promise<void> {
  const { deviceCas } = at.services.store;
  const [tenantId, codeHash] = [v7(), v7()];
  await deviceCas.beginVerification({ tenantId, codeHash, createdBy: v7(), expiresAt: 2 }, 1, 1);
  const ca: DeviceCa = {
    ...{ id: v7(), tenantId, name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: 'f', subjectHash },
    ...{ publicKeyHash: v7(), subject: 'CN=CA', notAfter: 2, registration: null, createdBy: v7(), createdAt: 1 },
  };
  expect(await deviceCas.insert(ca, { codeHash, now: 1, mostOfSubject: 1 })).toBe('inserted');
}

/** A certificate that was made without `openssl`, in files. */
function written({ pem, keys }: TestCertificate): CertificateFiles {
  const made = mkdtempSync(join(folder, 'made-'));
  const files = { cert: join(made, 'cert.pem'), key: join(made, 'key.pem') };
  writeFileSync(files.cert, pem);
  writeFileSync(files.key, keys.privateKey.export({ format: 'pem', type: 'pkcs8' }));
  return files;
}

async function registered(
  by: Owner,
  one: OpensslCa,
  prove: (code: string) => CertificateFiles = (code) => one.issue(code),
): Promise<string> {
  const { status, body } = await registerCa(by, one, prove(await newCode(by)));
  if (status !== 201) throw new Error(JSON.stringify(body));
  return body.id;
}

/** Confirms a change, if the policy requires it. */
async function confirmed({ status, body }: { status: number; body: Record<string, string> }): Promise<void> {
  if (status !== 409) return expect(status).toBe(200);
  const path = `/v1/changes/${body.change_id}/confirm`;
  expect((await owner.post(path, { dry_run_token: body.dry_run_token })).status).toBe(200);
}

async function findDevice(name: string): Promise<{ id: string } | undefined> {
  const { body } = await owner.get('/v1/devices?limit=200');
  return body.devices.find((device: { name: string | null }) => device.name === name);
}

async function deviceNamed(name: string) {
  const found = await findDevice(name);
  if (found === undefined) throw new Error(`no device is named ${name}`);
  return found;
}

const read = async (id: string) => (await owner.get(`/v1/devices/${id}`)).body.device;

const connection = ({ cert, key }: CertificateFiles): string[] => [
  ...['-h', 'localhost', '-p', port, '--cafile', file('localhost.crt'), '--cert', cert, '--key', key],
];

/** The exit code. */
function mosquitto(program: string, files: CertificateFiles, more: string[]): Promise<number> {
  return new Promise((resolve) => {
    const child = execFile(program, [...connection(files), ...more], () => resolve(child.exitCode ?? -1));
  });
}

const publish = (files: CertificateFiles, channel: string, payload: object, more: string[] = []): Promise<number> =>
  mosquitto('mosquitto_pub', files, ['-t', `proto/self/${channel}`, '-q', '1', '-m', JSON.stringify(payload), ...more]);

function subscribe(files: CertificateFiles, more: string[]) {
  const child = spawn('mosquitto_sub', [...connection(files), '-q', '1', ...more], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  ended.push(() => child.kill());
  let text = '';
  child.stdout.on('data', (data) => {
    text += data;
  });
  const exit = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
  return { exit, output: exit.then(() => text) };
}

/** A connection that has sent a CONNECT without password. */
async function dial(files: CertificateFiles | null, version: 'TLSv1.2' | 'TLSv1.3', session?: Buffer) {
  const socket: TLSSocket = connectTls({
    ...{ host: '127.0.0.1', port: Number(port), rejectUnauthorized: false, minVersion: version, maxVersion: version },
    ...(files && { cert: readFileSync(files.cert), key: readFileSync(files.key) }),
    ...(session && { session }),
  });
  ended.push(() => socket.destroy());
  socket.on('error', () => {});
  const ticket = new Promise<Buffer>((resolve) => socket.once('session', resolve));
  const connack = new Promise<number | undefined>((resolve) => {
    socket.once('data', (bytes: Buffer) => resolve(bytes[3]));
    socket.once('close', () => resolve(undefined));
  });
  await new Promise((resolve) => socket.once('secureConnect', resolve));
  socket.write(packets.connect({ clientId: 'resumed' }));
  return { socket, ticket, connack };
}
