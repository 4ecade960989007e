import { randomUUID } from 'node:crypto';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect } from 'vitest';
import type { Device } from '../../src/device/device.ts';
import { bearerRequester, cookieRequester, createApiKey, type Requester } from './access-fixture.ts';
import { eventually } from './clock.ts';
import { connect, register } from './device.ts';
import { mcpClient } from './mcp.ts';
import { startService, type TestService } from './service.ts';

// A tenant whose policy is `confirm_by: person`, with every credential that a program can have, and homes with a gate and a
// lock that are online.

type Owner = Awaited<ReturnType<TestService['owner']>>;

export interface GuardedTenant {
  at: TestService;
  owner: Owner;
  /** Keys with all scopes, a token that was presented at /mcp, and a browser session that was opened with it before. */
  programs: readonly Requester[];
  /** MCP sessions of a key; the second one accepts every question. */
  agents: readonly Client[];
  stop(): Promise<void>;
}

export async function startGuardedTenant(): Promise<GuardedTenant> {
  const at = await startService({ SIDECAR: 'embedded' });
  await eventually(() => at.services.sidecar.connected());
  const owner = await at.owner('ada');
  expect((await owner.patch('/v1/tenant/policy', { confirm_by: 'person' })).status).toBe(200);
  const all = (await createApiKey(owner)).key;
  const wild = (await createApiKey(owner, { scopes: ['*:*'] })).key;
  const token = await at.token('ada', { email: 'ada@example.com' });
  const session = await cookieRequester(at, 'a browser session of a token that was presented at /mcp later', token);
  const agents = [await mcpClient(at.url, all), await mcpClient(at.url, wild, { capabilities: { elicitation: {} } })];
  agents[1]?.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { confirm: true } }));
  await (await mcpClient(at.url, token)).close();
  return {
    ...{ at, owner, agents },
    programs: [
      bearerRequester(at, 'a key with all scopes of the role', all),
      bearerRequester(at, 'a key with every scope', wild),
      bearerRequester(at, 'a token that was presented at /mcp', token),
      session,
    ],
    async stop() {
      await Promise.all(agents.map((agent) => agent.close()));
      await at.stop();
    },
  };
}

export const gate = (more: object = {}) => ({
  ...{ action: 'open_gate', safetyClass: 'CRITICAL' },
  paramSchema: { type: 'object', properties: { percent: { type: 'integer', minimum: 0, maximum: 50 } } },
  ...more,
});
export const wide = {
  paramSchema: { type: 'object', properties: { percent: { type: 'integer' }, force: { type: 'boolean' } } },
};
export const close = { action: 'close_gate' };

/** Names that are critical for one of the devices, in several spellings. */
export const criticalActions = [
  ...['open_gate', 'Open-Gate', 'openGate', 'unlock', 'Unlock', 'un_lock', 'reboot', 'factory_reset'],
] as const;
const normalActions = { gate: 'close_gate', lock: 'lock' } as const;
export type Part = keyof typeof normalActions;
const parts = Object.keys(normalActions) as Part[];

let furnished = 0;

/** A gate whose owner raised `open_gate`, and a lock with the registry's manifest, both online. */
export class GuardedHome {
  readonly ids: Readonly<Record<Part, string>>;
  /** Unique in the tenant, so that goals can name them. */
  readonly names: Readonly<Record<Part, string>>;
  readonly roomId: string;
  readonly slug: string;
  /** The versions of the manifests that a person has published last. */
  readonly versions: Record<Part, number> = { gate: 1, lock: 1 };
  readonly #owner: Owner;
  readonly #devices: Device[];
  /** Actions that reached a device, in order. */
  readonly #done: string[];

  private constructor(
    owner: Owner,
    made: Pick<GuardedHome, 'ids' | 'names' | 'roomId' | 'slug'> & { devices: Device[]; done: string[] },
  ) {
    this.#owner = owner;
    this.ids = made.ids;
    this.names = made.names;
    this.roomId = made.roomId;
    this.slug = made.slug;
    this.#devices = made.devices;
    this.#done = made.done;
  }

  static async furnish({ owner }: GuardedTenant): Promise<GuardedHome> {
    furnished += 1;
    const names = { gate: `gate${furnished}`, lock: `door${furnished}` };
    const room = await owner.post(`/v1/homes/${owner.homeId}/rooms`, { name: `Yard ${furnished}` });
    const roomId: string = room.body.id;
    const [devices, done]: [Device[], string[]] = [[], []];
    const online = async (device_type: string, name: string, manifest?: object): Promise<string> => {
      const registered = await register(owner, { device_type, name, room_id: roomId });
      const path = `/v1/devices/${registered.device_id}/manifest`;
      if (manifest !== undefined) expect((await owner.post(path, manifest)).status).toBe(201);
      const perform = (action: string) => async () => {
        done.push(action);
        return action === 'lock' ? { state: { locked: true } } : {};
      };
      const actions = [...criticalActions, ...Object.values(normalActions)];
      const commands = Object.fromEntries(actions.map((action) => [action, perform(action)] as const));
      devices.push(await connect(registered, { state: {}, commands }));
      return registered.device_id as string;
    };
    const ids = {
      gate: await online('esp32', names.gate, { capabilities: [gate(), close] }),
      lock: await online('door_lock', names.lock),
    };
    const group = { name: `Doors ${randomUUID()}`, description: 'All', device_ids: Object.values(ids) };
    const { slug } = (await owner.post('/v1/groups', group)).body;
    return new GuardedHome(owner, { ids, names, roomId, slug, devices, done });
  }

  /** Critical actions that reached a device. */
  get reached(): string[] {
    const normal: string[] = Object.values(normalActions);
    return this.#done.filter((action) => !normal.includes(action));
  }

  /** Publishes as a person; what makes the manifest weaker waits. */
  async publish(of: Part, capabilities: object[]) {
    const answer = await this.#owner.put(`/v1/devices/${this.ids[of]}/manifest`, {
      ...{ version: this.versions[of], capabilities },
    });
    if (answer.status === 200) this.versions[of] += 1;
    return answer;
  }

  async storedVersions(): Promise<Record<Part, number>> {
    const version = async (of: Part): Promise<number> =>
      (await this.#owner.get(`/v1/devices/${this.ids[of]}/manifest`)).body.version;
    return { gate: await version('gate'), lock: await version('lock') };
  }

  /**
   * Awaits the end of all that the programs started, then two commands of the owner that follow on the same channels. The
   * owner leaves only the normal actions in the manifests, which makes nothing weaker.
   */
  async settle(): Promise<void> {
    await eventually(async () => {
      const { body } = await this.#owner.get('/v1/plans?limit=200');
      return body.plans.every(({ status }: { status: string }) => !/^(pending|running|rolling_back)$/.test(status));
    });
    for (const of of parts) {
      const action = normalActions[of];
      const count = () => this.#done.filter((one) => one === action).length;
      const before = count();
      expect((await this.publish(of, [{ action }])).status).toBe(200);
      expect((await this.#owner.post(`/v1/device/${this.ids[of]}/command`, { action })).status).toBe(202);
      await eventually(() => count() > before);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#devices.splice(0).map((device) => device.close(0)));
  }
}
