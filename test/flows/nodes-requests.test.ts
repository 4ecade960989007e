import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request as sendRequest } from 'node:http';
import { beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { register } from '../support/device.ts';
import { type RunningNode, RunningNodes, type TenantOwner } from '../support/running-nodes.ts';
import { type ApiResponse, makeApiClient } from '../support/service.ts';

const BETA_LIMIT = 12;

describe.runIf(inject('postgresUrl'))('requests to three nodes', () => {
  const running = new RunningNodes({
    ...{ ARTIFACT_STORE: 'database', BETA_DEVICE_LIMIT: `${BETA_LIMIT}`, TRUSTED_PROXIES: '127.0.0.1' },
    PUBLIC_URL: 'https://nodes.example',
  });
  let owner: TenantOwner;
  beforeAll(async () => {
    owner = await running.owner('owner');
  });

  beforeEach(() => running.restore());

  /** The owner of the tenant, and the two others. */
  const roles = async () => {
    const [one, two] = (await running.othersOf(owner.tenantId)) as [RunningNode, RunningNode];
    return { serving: await running.ownerOf(owner.tenantId), one, two };
  };

  it('are answered at a node that owns no shard, from the first sign-in of a user on', async () => {
    const [empty] = running.nodes as [RunningNode];
    const resume = await running.drain(empty);
    const user = makeApiClient(empty.url, await running.token('new-user', { email: 'new@example.com' }));
    expect((await user.get('/v1/auth/me')).body).toMatchObject({ has_tenant: false, user: { ext_id: 'new-user' } });
    const registered = await user.post('/v1/tenant/register', { tenant_name: 'New' });
    expect(registered.status).toBe(201);
    expect(await running.ownerOf(registered.body.tenant_id)).not.toBe(empty);
    const home = await user.post('/v1/homes', { home_name: 'Home' });
    const device = await register({ ...user, homeId: home.body.id });
    const sent = await user.post(`/v1/device/${device.device_id}/command`, { action: 'turn_on' });
    expect(sent.status).toBe(202);
    await resume();
  });

  describe('with an artifact', () => {
    const bytes = randomBytes(300_000);
    const draft = async (version: string): Promise<string> =>
      (await owner.post('/v1/firmware/release', { device_type: 'smart_light', version })).body.id;
    const upload = (node: RunningNode, id: string, body: Buffer) =>
      fetch(`${node.url}/v1/firmware/${id}/artifact`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
        body: body as Uint8Array<ArrayBuffer>,
      });

    it('are uploaded and downloaded through nodes that do not own the tenant', async () => {
      const { one, two } = await roles();
      const id = await draft('1.0.0');
      expect((await upload(one, id, bytes)).status).toBe(200);
      expect((await owner.post(`/v1/firmware/${id}/release`, { rollout_percent: 100 })).status).toBe(200);
      const { body } = await running.at(two, owner).get(`/v1/firmware/${id}`);
      const { pathname, search } = new URL(body.release.url);
      for (const { url } of running.nodes) {
        const whole = await fetch(`${url}${pathname}${search}`);
        expect(Buffer.from(await whole.arrayBuffer()).equals(bytes)).toBe(true);
        const part = await fetch(`${url}${pathname}${search}`, { headers: { range: 'bytes=1000-1999' } });
        expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(1000, 2000))).toBe(true);
      }
    });

    it('that do not arrive while the tenant moves are refused with 503, and can be repeated', async () => {
      const { serving, one } = await roles();
      const id = await draft('1.1.0');
      const sent = sendRequest(`${one.url}/v1/firmware/${id}/artifact`, {
        method: 'PUT',
        headers: {
          ...{ authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
          'content-length': bytes.length,
        },
      });
      sent.on('error', () => {});
      const responded = once(sent, 'response');
      sent.write(bytes.subarray(0, 100_000));
      const started = 'select 1 from artifacts where bytes is null';
      await expect.poll(async () => (await running.query(started)).length).toBe(1);
      const resume = await running.drain(serving);
      const [response] = (await responded) as [IncomingMessage];
      expect(response.statusCode).toBe(503);
      expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
      sent.destroy();
      expect((await upload(one, id, bytes)).status).toBe(200);
      await resume();
    });
  });

  it('name the client’s address at the owner, which the client cannot forge', async () => {
    const { one } = await roles();
    /** A failed sign-in, which the owner of the tenant counts by the address. */
    const fail = async (localAddress: string, headers: Record<string, string>): Promise<number> => {
      const sent = sendRequest(`${one.url}/v1/auth/session`, {
        ...{ method: 'POST', localAddress, agent: false },
        headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/json', ...headers },
      });
      sent.end('{"token":"invalid"}');
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      response.resume();
      return response.statusCode ?? 0;
    };
    const exhaust = async (...given: Parameters<typeof fail>): Promise<void> => {
      for (let n = 0; n < 200; n += 1) if ((await fail(...given)) === 429) return;
      throw new Error('not limited');
    };
    // 127.0.0.1 is a trusted proxy, 127.0.0.2 a client.
    const proxied = (address: string) => ['127.0.0.1', { 'x-forwarded-for': address }] as const;
    await exhaust(...proxied('192.0.2.1'));
    expect(await fail(...proxied('192.0.2.2'))).toBe(401);
    expect(await fail(...proxied('192.0.2.1'))).toBe(429);
    const forged = (address: string) => ({ 'x-forwarded-for': address, 'x-twinkeep-client-address': address });
    await exhaust('127.0.0.2', forged('192.0.2.3'));
    expect(await fail('127.0.0.2', forged('192.0.2.4'))).toBe(429);
    expect(await fail(...proxied('192.0.2.3'))).toBe(401);
  });

  it('activate no more devices together than the limit of the service', async () => {
    // A tenant is registered in a shard of the node where its owner signs in first.
    const first = owner;
    const second = await running.owner('another', (await roles()).one);
    expect(await running.ownerOf(second.tenantId)).not.toBe(await running.ownerOf(first.tenantId));
    const answers = await Promise.all(
      Array.from({ length: 2 * BETA_LIMIT }, (_, n) => {
        const tenant = n % 2 === 0 ? first : second;
        const api = running.at(running.nodes[n % 3] as RunningNode, tenant);
        return api.post('/v1/device/register', { device_type: 'smart_light', home_id: tenant.homeId });
      }),
    );
    const refused = answers.filter(({ status }) => status !== 201);
    expect(new Set(refused.map(({ body }) => body.code))).toEqual(new Set(['BETA_LIMIT_REACHED']));
    const [row] = await running.query<{ n: number }>(
      'select count(*)::integer as n from devices where not revoked and not deleted',
    );
    expect(row?.n).toBe(BETA_LIMIT);
  });

  describe('with an Idempotency-Key', () => {
    const create = (node: RunningNode, key: string): Promise<ApiResponse> =>
      running.at(node, owner).post('/v1/homes', { home_name: key }, { 'Idempotency-Key': key });
    const homesOf = async (key: string) => {
      const text = 'select 1 from homes where tenant_id = $1 and name = $2';
      return (await running.query(text, [owner.tenantId, key])).length;
    };

    it('have one effect and one answer at every node, after a move, and after the owner was killed', async () => {
      const first = await create(running.nodes[0] as RunningNode, 'kept');
      expect(first.status).toBe(201);
      const isKept = async () => {
        for (const node of running.nodes) {
          const { status, body, headers } = await create(node, 'kept');
          expect([status, body, headers.get('idempotent-replayed')]).toEqual([201, first.body, 'true']);
        }
        expect(await homesOf('kept')).toBe(1);
      };
      await isKept();
      const { serving } = await roles();
      const resume = await running.drain(serving);
      await isKept();
      await resume();
      await running.end(await running.ownerOf(owner.tenantId));
      await isKept();
    });

    it('have one effect although the owner is killed while they are sent through all nodes', async () => {
      const { serving, one, two } = await roles();
      const sent = Array.from({ length: 20 }, (_, n) => create(n % 2 === 0 ? one : two, `killed-${n % 4}`));
      await running.end(serving);
      const answers = await Promise.all(sent);
      // A request with the same key may still be running.
      for (const { status } of answers) expect([201, 409]).toContain(status);
      for (let n = 0; n < 4; n += 1) {
        const key = `killed-${n}`;
        const { status, body } = await create(one, key);
        expect(status).toBe(201);
        expect(await homesOf(key)).toBe(1);
        for (const given of answers)
          if (given.status === 201 && given.body.home_name === key) expect(given.body.id).toBe(body.id);
      }
    });
  });
});
