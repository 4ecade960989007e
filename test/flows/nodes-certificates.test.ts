import { fileURLToPath } from 'node:url';
import mqtt, { type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { parseCertificate } from '../../src/protocol/certificate.ts';
import { type Balancer, startBalancer } from '../support/balancer.ts';
import { issue, makeAuthority, type TestCertificate } from '../support/certificates.ts';
import { eventually } from '../support/clock.ts';
import { type RunningNode, RunningNodes, type TenantOwner } from '../support/running-nodes.ts';

const file = (name: string) => fileURLToPath(new URL(`../support/tls/${name}`, import.meta.url));

describe.runIf(inject('postgresUrl'))(
  'devices with certificates at nodes behind a balancer that passes TLS through',
  () => {
    const running = new RunningNodes({ TLS_CERT: file('localhost.crt'), TLS_KEY: file('localhost.key') });
    const authority = makeAuthority();
    let owner: TenantOwner;
    let balancer: Balancer;
    let caId: string;
    let names = 0;
    const clients: MqttClient[] = [];

    const tlsPortOf = ({ mqttTlsPort }: RunningNode): number => mqttTlsPort as number;
    beforeAll(async () => {
      // The certificate of the nodes is signed by itself.
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
      owner = await running.owner('owner');
      balancer = await startBalancer(running.nodes.map(tlsPortOf));
      const code = (await owner.post('/v1/cas/verifications')).body.verification_code;
      const registered = await owner.post('/v1/cas', {
        ...{ name: 'Factory', certificate: authority.pem, verification_certificate: issue(authority, code).pem },
        registration: { home_id: owner.homeId, device_type: 'smart_light' },
      });
      expect(registered.status).toBe(201);
      caId = registered.body.id;
    });
    afterEach(async () => {
      for (const client of clients.splice(0)) client.end(true);
    });
    afterAll(async () => {
      await balancer?.close();
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    });

    /** A device, which connects again by itself after its connection has ended. */
    function connect(certificate: TestCertificate, port: number) {
      const key = certificate.keys.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
      const client = mqtt.connect({
        ...{ protocol: 'mqtts', host: '127.0.0.1', port, cert: certificate.pem, key, rejectUnauthorized: false },
        ...{ clientId: 'device', reconnectPeriod: 100 },
      });
      clients.push(client);
      const seen = { sessions: 0, ended: 0, refusals: [] as (number | string | undefined)[] };
      client.on('connect', () => {
        seen.sessions += 1;
      });
      client.on('close', () => {
        seen.ended += 1;
      });
      client.on('error', (error) => seen.refusals.push((error as { code?: number | string }).code));
      return { client, seen };
    }
    const report = (client: MqttClient, state: object) =>
      client.publishAsync('proto/self/state', JSON.stringify({ state }), { qos: 1 });
    const deviceNamed = (name: string) =>
      eventually(async () => {
        const { body } = await owner.get('/v1/devices?limit=200');
        return body.devices?.find((device: { name: string }) => device.name === name);
      });
    const stateOf = async (id: string) => (await owner.get(`/v1/devices/${id}`)).body.device?.state;
    const newDevice = () => {
      const certificate = issue(authority, `lamp-${++names}`);
      return { certificate, name: certificate.commonName };
    };

    it('sign in through each node, also one that does not own their tenant, as the same device', async () => {
      const { certificate, name } = newDevice();
      for (const [n, node] of running.nodes.entries()) {
        const { client } = connect(certificate, tlsPortOf(node));
        await report(client, { brightness: n + 1 });
        client.end(true);
        const { id } = await deviceNamed(name);
        expect(await stateOf(id)).toMatchObject({ brightness: n + 1 });
      }
      expect((await owner.get('/v1/devices?limit=200')).body.devices).toHaveLength(names);
    });

    it('connect again through the balancer after the shard of their tenant has moved', async () => {
      const { certificate, name } = newDevice();
      const { client, seen } = connect(certificate, balancer.port);
      await report(client, { brightness: 1 });
      const { id } = await deviceNamed(name);
      const serving = await running.ownerOf(owner.tenantId);
      const resume = await running.drain(serving);
      expect(await running.ownerOf(owner.tenantId)).not.toBe(serving);
      await eventually(() => seen.sessions >= 2);
      await report(client, { brightness: 2 });
      expect(await eventually(async () => (await stateOf(id))?.brightness === 2)).toBe(true);
      client.end(true);
      await resume();
    });

    it('are disconnected by a revocation at another node, and then refused by each node', async () => {
      const serving = await running.ownerOf(owner.tenantId);
      const [through, third] = (await running.othersOf(owner.tenantId)) as [RunningNode, RunningNode];
      const { certificate } = newDevice();
      const { client, seen } = connect(certificate, tlsPortOf(through));
      await report(client, { brightness: 1 });
      expect(seen.refusals).toEqual([]);
      const serial = parseCertificate(certificate.der)?.serialNumber;
      const revoked = await running.at(third, owner).post(`/v1/cas/${caId}/revocations`, { serial_number: serial });
      expect(revoked.status).toBe(200);
      // The connection has ended, and the client's next one is refused.
      await eventually(() => seen.ended > 0 && seen.refusals.includes(5));
      client.end(true);
      for (const node of [serving, through, third]) {
        const again = connect(certificate, tlsPortOf(node));
        await eventually(() => again.seen.refusals.includes(5));
        expect(again.seen.sessions).toBe(0);
        again.client.end(true);
      }
    });
  },
);
