import { hash, randomBytes } from 'node:crypto';
import { v7 } from 'uuid';
import type { Uuid } from '../../src/domain/values.ts';
import type { HttpService } from '../support/http-service.ts';
import { setPolicy } from '../support/safety-policy.ts';
import { makeTestTenant, type TestTenant } from '../support/test-tenant.ts';

/** A tenant, and factories for the subjects that the endpoints of the table need. */
export interface World extends TestTenant {
  service: HttpService;
  name: string;
  /** A token of a platform operator. */
  operator: string;
  made(method: string, path: string, body: unknown): Promise<Record<string, string>>;
  home(): Promise<Uuid>;
  room(): Promise<Uuid>;
  /** A new device of this type; `thing` has no manifest. */
  device(type?: string): Promise<Uuid>;
  revoked(): Promise<Uuid>;
  group(deviceIds?: Uuid[]): Promise<string>;
  /** A critical command that awaits confirmation. */
  awaiting(): Promise<{ deviceId: Uuid; commandId: Uuid; token: string }>;
  /** A change of a manifest that awaits confirmation. */
  waitingChange(): Promise<{ changeId: Uuid; token: string }>;
  /** An API key of the user with this token, by default the owner; with these scopes, by default all. */
  apiKey(token?: string, scopes?: string[]): Promise<{ key: string; prefix: string }>;
  /** A new member of the tenant, and their token. */
  newMember(): Promise<{ userId: Uuid; token: string }>;
  /** An invitation to a user with a verified address, and their token. */
  invitation(): Promise<{ id: Uuid; token: string }>;
  /** A firmware draft with or without an artifact. */
  draft(artifact?: 'with artifact'): Promise<{ id: Uuid; url: string }>;
  memory(): Promise<Uuid>;
  /** A quarantined device. */
  quarantined(): Promise<Uuid>;
  /** A CLI sign-in whose page is open. */
  handshake(): Promise<{ code: string; userCode: string; headers: Record<string, string> }>;
  /** A tenant that no other test uses. */
  tenant(): Promise<Uuid>;
}

let worlds = 0;

export async function makeWorld(service: HttpService): Promise<World> {
  const tenancy = await makeTestTenant(service);
  service.services.verifyLogoutToken = () => async (token) => {
    const logout = { id: v7(), expiresAt: service.clock.now(), subject: null, session: v7() };
    return token === 'valid' ? logout : null;
  };
  // The same at /mcp as on other edges.
  await setPolicy(tenancy, { agent_confirm_by: 'requester' });
  const name = `w${++worlds}`;
  const operator = await service.token(v7(), { scope: 'platform:admin' });
  let groups = 0;
  let drafts = 0;
  const made: World['made'] = async (method, path, body) => {
    const { status, body: answer } = await tenancy.call(method, path, body);
    if (status >= 300 && status !== 409) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  const idOf = async (method: string, path: string, body: unknown) => (await made(method, path, body)).id as Uuid;
  const device: World['device'] = async (type = 'smart_light') =>
    (await tenancy.register({ device_type: type })).device_id;

  return {
    ...tenancy,
    ...{ service, name, operator, made, device },
    home: () => idOf('POST', '/homes', { home_name: 'Cabin' }),
    room: () => idOf('POST', `/homes/${tenancy.homeId}/rooms`, { name: 'Attic' }),
    async revoked() {
      const id = await device();
      await made('POST', `/device/${id}/revoke`, {});
      return id;
    },
    async group(deviceIds = []) {
      const body = { name: `${name} group ${++groups}`, description: 'Lamps', device_ids: deviceIds };
      return (await made('POST', '/groups', body)).slug as string;
    },
    async awaiting() {
      const deviceId = await device();
      const requested = await made('POST', `/device/${deviceId}/command`, { action: 'reboot' });
      return { deviceId, commandId: requested.command_id as Uuid, token: requested.dry_run_token as string };
    },
    async waitingChange() {
      const path = `/devices/${await device('thing')}/manifest`;
      await made('POST', path, { capabilities: [{ action: 'open_gate', safetyClass: 'CRITICAL' }] });
      const requested = await made('PUT', path, { version: 1, capabilities: [{ action: 'open_gate' }] });
      return { changeId: requested.change_id as Uuid, token: requested.dry_run_token as string };
    },
    async apiKey(token = tenancy.tokens.owner, scopes = ['all']) {
      const { status, body } = await tenancy.call('POST', '/auth/api-keys', { name: 'Walker', scopes }, { token });
      if (status !== 201) throw new Error(JSON.stringify(body));
      return body;
    },
    async newMember() {
      const token = await service.member(tenancy.tenantId, 'user');
      return { userId: (await tenancy.call('GET', '/auth/me', undefined, { token })).body.user.id, token };
    },
    async invitation() {
      const email = `${v7()}@example.com`;
      const { member } = (await made('POST', '/tenant/members', { email, role: 'user' })) as unknown as {
        member: { id: Uuid };
      };
      return { id: member.id, token: await service.token(v7(), { email }) };
    },
    async draft(artifact) {
      const version = `1.${++drafts}.0-walk`;
      const { id } = (await made('POST', '/firmware/release', { device_type: 'smart_light', version })) as { id: Uuid };
      if (artifact === undefined) return { id, url: '' };
      const headers = { 'content-type': 'application/octet-stream' };
      const { status, body } = await tenancy.call('PUT', `/firmware/${id}/artifact`, Buffer.from(version), { headers });
      if (status !== 200) throw new Error(JSON.stringify(body));
      return { id, url: body.release.url };
    },
    async memory() {
      const body = { kind: 'preference', subject: 'house', content: 'Warm light', tags: ['light'] };
      const { memory } = (await made('POST', '/memories', body)) as unknown as { memory: { id: Uuid } };
      return memory.id;
    },
    async quarantined() {
      const id = await device();
      await service.store.actors.quarantine({ kind: 'device', id }, 'it failed');
      return id;
    },
    async handshake() {
      const code = randomBytes(32).toString('base64url');
      const verifier = randomBytes(32).toString('base64url');
      const opened = await service.services.handshakes.open(code, hash('sha256', verifier, 'base64url'));
      if (!opened.ok) throw new Error(opened.refusal.detail);
      return { code, userCode: userCodeOf(code), headers: { 'x-handshake-verifier': verifier } };
    },
    tenant: async () => (await service.owner()).tenantId,
  };
}

/** Contract §3: the first 6 characters of the base32 (RFC 4648) of the code's SHA-256. */
function userCodeOf(code: string): string {
  const bits = [...hash('sha256', code, 'buffer').subarray(0, 4)]
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('');
  const digits = Array.from({ length: 6 }, (_, n) => Number.parseInt(bits.slice(n * 5, n * 5 + 5), 2));
  return digits.map((digit) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[digit]).join('');
}
