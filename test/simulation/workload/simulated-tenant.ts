import { approveChange } from '../../../src/operations/changes/change-requests.ts';
import { updatePolicy } from '../../../src/operations/commands/safety-policy.ts';
import { registerDevice } from '../../../src/operations/devices/device-registration.ts';
import { createHome } from '../../../src/operations/homes/homes.ts';
import { registerTenant } from '../../../src/operations/identity/tenants.ts';
import type { CmdPayload } from '../../../src/protocol/payloads.ts';
import type { Cluster } from '../service/cluster.ts';
import type { Random } from '../world/random.ts';
import type { World } from '../world/world.ts';
import { type Body, Callers, type CallResult, type Person } from './callers.ts';
import { Device } from './device.ts';
import { Ledger } from './ledger.ts';

const LIGHTS = 3;
const LOCKS = 2;

export type ConfirmBy = 'requester' | 'another_principal';

/** The tenant of a run: its users, its devices, and the responses they received. */
export class SimulatedTenant {
  readonly world: World;
  readonly cluster: Cluster;
  readonly ledger = new Ledger();
  readonly callers: Callers;
  readonly random: Random;
  readonly confirmBy: ConfirmBy;
  readonly owner: Person;
  readonly flatmate: Person;
  readonly operator: Person;
  readonly devices: Device[] = [];
  tenantId = '';
  /** True during the fault phase: the workload starts new work, and faults are injected. */
  storm = true;
  /** Virtual time since which no fault is injected. */
  calmSince = Number.POSITIVE_INFINITY;
  /** Devices with a change of keys or revocation in progress, whose permitted behaviour is unknown. */
  readonly changing = new Set<string>();
  suspended: 'no' | 'maybe' | 'yes' = 'no';

  constructor(world: World, cluster: Cluster, confirmBy: ConfirmBy) {
    this.world = world;
    this.cluster = cluster;
    this.callers = new Callers(world, cluster, this.ledger);
    this.random = world.random.fork('household');
    this.confirmBy = confirmBy;
    this.owner = this.#person('owner', false);
    this.flatmate = this.#person('flatmate', false);
    this.operator = this.#person('operator', true);
  }

  get lights(): Device[] {
    return this.devices.filter(({ kind }) => kind === 'light');
  }

  get locks(): Device[] {
    return this.devices.filter(({ kind }) => kind === 'lock');
  }

  /** Registers users and devices, without faults. */
  async moveIn(): Promise<void> {
    const tenant = await this.must(this.owner, registerTenant, { tenant_name: 'House' });
    this.tenantId = tenant.tenant_id;
    this.#users((user) => (user.id === this.flatmate.id ? { ...user, tenantId: this.tenantId, role: 'admin' } : user));
    const { id: home_id } = await this.must(this.owner, createHome, { home_name: 'Home' });
    await this.must(this.owner, updatePolicy, { confirm_by: this.confirmBy, confirm_ttl_s: 60 });
    for (let n = 0; n < LIGHTS + LOCKS; n++) {
      const kind = n < LIGHTS ? ('light' as const) : ('lock' as const);
      const registeredAt = this.world.now();
      const made = await this.must(this.owner, registerDevice, { device_type: `smart_${kind}`, home_id });
      const { world, cluster, tenantId } = this;
      const credentials = { tenantId, id: made.device_id, secret: made.device_secret };
      this.devices.push(new Device({ world, cluster, kind, registeredAt, ...credentials }));
    }
    for (const device of this.devices) this.#watch(device);
  }

  request(person: Person, operation: Parameters<Callers['request']>[1], input: object): Promise<CallResult> {
    return this.callers.request(person, operation, input);
  }

  /** For a request that can only be refused temporarily. */
  async must(person: Person, operation: Parameters<Callers['request']>[1], input: object): Promise<Body> {
    const sent = await this.callers.request(person, operation, input, true);
    if (sent.code !== null) throw new Error(`${operation.name} was refused: ${sent.code}`);
    return sent.body;
  }

  /** Like `must`, for a change that another user confirms where the policy requires it. */
  async mustChange(person: Person, operation: Parameters<Callers['request']>[1], input: object): Promise<Body> {
    const other = person === this.owner ? this.flatmate : this.owner;
    for (;;) {
      const answer = await this.must(person, operation, input);
      if (answer.change_id === undefined) return answer;
      const { body } = await this.callers.request(other, approveChange, { change_id: answer.change_id }, true);
      this.world.count(body?.status === 'applied' ? 'changes confirmed' : 'changes requested again');
      if (body?.status === 'applied') return body.result;
    }
  }

  pause(longest: number): Promise<void> {
    return this.world.scheduler.sleep(this.random.float(longest));
  }

  /** Repeats `body`, with pauses, until the fault phase ends. */
  async repeat(longest: number, body: () => Promise<void>): Promise<void> {
    while (this.storm) {
      await this.pause(longest);
      if (this.storm) await body();
    }
  }

  #watch(device: Device): void {
    device.refused = (keyVersion) => this.#refused(device, keyVersion);
    device.executes = (command) => this.#executes(device, command);
  }

  #refused(device: Device, keyVersion: number): void {
    this.world.count('sign-ins refused');
    const mayBeShut = this.ledger.shut.has(device.id) || this.changing.has(device.id) || this.suspended !== 'no';
    if (mayBeShut || this.ledger.endedKeys.has(`${device.id} ${keyVersion}`)) return;
    this.world.fail('valid-keys-sign-in', `device ${device.id} was refused with its key ${keyVersion}`);
  }

  #executes(device: Device, { command_id: id, action }: CmdPayload): void {
    if (!['lock', 'unlock', 'update_firmware', 'reboot'].includes(action) || action === 'lock') return;
    const row = this.cluster.database.tables.actors.get(`command:${id}`);
    if (row?.columns.critical !== true) return;
    const requester = (row.context.requestedBy as { id: string }).id;
    const allowed = [...(this.ledger.confirmations.get(id) ?? [])].filter(
      (one) => this.confirmBy === 'requester' || one !== requester,
    );
    if (allowed.length > 0) return;
    this.world.fail(
      'critical-commands-need-confirmation',
      `${action} ${id} at ${device.id}: nobody who may has confirmed it`,
    );
  }

  #person(name: string, platformAdmin: boolean): Person {
    const id = this.cluster.newId();
    const user = { id, iss: 'simulation', sub: name, email: null, emailVerified: false, tenantId: null } as const;
    this.cluster.database.transaction(({ users }) => {
      users.set(id, { ...user, role: 'none', createdAt: this.world.now(), notBefore: null });
    });
    return { id, name, platformAdmin };
  }

  #users(change: (user: UserRow) => UserRow): void {
    this.cluster.database.transaction(({ users }) => {
      for (const [key, user] of [...users]) users.set(key, change(user));
    });
  }
}

type UserRow = Parameters<Cluster['database']['tables']['users']['set']>[1];
