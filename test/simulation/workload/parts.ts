import { commandDevice, confirmCommand } from '../../../src/operations/commands/commands.ts';
import { approveConfirmation, listConfirmations } from '../../../src/operations/commands/confirmation-inbox.ts';
import { reinstateDevice, revokeDevice, rotateSecret } from '../../../src/operations/devices/device-keys.ts';
import { getDevice, listDevices } from '../../../src/operations/devices/devices.ts';
import { createRelease, releaseFirmware } from '../../../src/operations/firmware/firmware.ts';
import type { Operation } from '../../../src/operations/operation.ts';
import { cancelPlan, createPlan } from '../../../src/operations/plans/plans.ts';
import { resumeTenant, setFlag, suspendTenant } from '../../../src/operations/platform/administration.ts';
import type { Person } from './callers.ts';
import type { Device } from './device.ts';
import type { SimulatedTenant } from './simulated-tenant.ts';

/** A plan name that the database refuses to store. */
export const REFUSED_PLAN = 'refused';

/** One kind of work; after the fault phase it restores everything that it had changed, and ends. */
export type Part = (house: SimulatedTenant) => Promise<unknown>;

/** Each kind can be disabled, with which the shrinker reduces a failing run. */
export const parts = {
  reports: (house) =>
    Promise.all(
      house.devices.map((device) => {
        const gap = house.random.pick([20, 200, 1_500]);
        return house.repeat(gap, async () => {
          if (house.random.chance(0.1)) device.heartbeat();
          else device.count();
        });
      }),
    ),

  commands: (house) =>
    house.repeat(1_000, async () => {
      const device = house.random.pick(house.lights);
      const params = { level: house.random.int(101) };
      const wish = { deviceId: device.id, action: 'set_brightness', params, ttl_s: 60, timeout_s: 30 };
      const id = await dispatched(house, device, house.owner, commandDevice, wish);
      if (id !== null) house.ledger.commands.set(id, device.id);
    }),

  critical: (house) =>
    house.repeat(3_000, () => confirmed(house, house.random.pick(house.locks), { action: 'unlock' })),

  plans: (house) =>
    house.repeat(4_000, async () => {
      const said = await house.ask(house.owner, createPlan, planWish(house));
      if (said.code !== null) return;
      house.ledger.plans.add(said.body.plan.id);
      if (!house.random.chance(0.15)) return;
      await house.pause(3_000);
      await house.ask(house.flatmate, cancelPlan, { id: said.body.plan.id });
    }),

  /** Approves pending confirmations in the inbox, occasionally as a user who may not. */
  inbox: (house) =>
    house.repeat(4_000, async () => {
      const person = house.random.pick([house.owner, house.flatmate]);
      const said = await house.ask(person, listConfirmations, {});
      if (said.code !== null) return;
      for (const { command_id } of said.body.confirmations) {
        if (!house.random.chance(0.7)) continue;
        house.ledger.confirms(command_id, person.id);
        await house.ask(person, approveConfirmation, { command_id });
      }
    }),

  rotations: (house) =>
    house.repeat(6_000, async () => {
      const device = house.random.pick(house.devices);
      await changing(house, device, async () => {
        const { key_version, new_secret } = await house.must(house.owner, rotateSecret, { id: device.id });
        // The key before the one that is now in its grace period has ended.
        house.ledger.endKeysBelow(device.id, key_version - 1);
        const bring = () => device.secrets.set(key_version, new_secret);
        const mustHurry = device.newestKey < key_version - 1;
        if (mustHurry || house.random.chance(0.5)) bring();
        else house.world.scheduler.at(house.random.pick([500, 5_000, 86_400_000 + 3_600_000]), bring, null);
      });
    }),

  revocations: (house) =>
    house.repeat(12_000, async () => {
      const device = house.random.pick(house.devices);
      await changing(house, device, async () => {
        await house.must(house.flatmate, revokeDevice, { id: device.id, reason: 'lost' });
        house.ledger.revoked(device.id, house.world.now());
        await house.pause(6_000);
        house.ledger.shut.delete(device.id);
        const back = await house.must(house.owner, reinstateDevice, { id: device.id, reason: 'found' });
        house.ledger.endKeysBelow(device.id, back.key_version);
        device.beginAnew(back.key_version, back.new_secret);
      });
    }),

  suspensions: (house) =>
    house.repeat(25_000, async () => {
      house.suspended = 'maybe';
      const said = await house.ask(house.operator, suspendTenant, { id: house.tenantId });
      if (said.code === null) {
        house.suspended = 'yes';
        await house.pause(4_000);
        house.suspended = 'maybe';
      }
      await house.must(house.operator, resumeTenant, { id: house.tenantId });
      // A sign-in that was verified before can still be in progress.
      await house.world.scheduler.sleep(10_000);
      house.suspended = 'no';
    }),

  flags: (house) =>
    house.repeat(10_000, async () => {
      const flag = house.random.pick(['commands_disabled', 'maintenance_mode', 'registration_lock'] as const);
      const said = await house.ask(house.operator, setFlag, { flag, state: true });
      if (said.code === null) house.ledger.raise(flag);
      await house.pause(5_000);
      house.ledger.lower(flag);
      await house.must(house.operator, setFlag, { flag, state: false });
      house.ledger.flagsAnswered.set(flag, false);
    }),

  firmware: async (house) => {
    let serial = 0;
    await house.repeat(10_000, async () => {
      const version = `1.${++serial}.0`;
      const checksum = 'ab'.repeat(32);
      const wish = { device_type: 'smart_light', version, url: 'https://example.com/fw.bin', checksum };
      const said = await house.ask(house.owner, createRelease, wish);
      if (said.code !== null) return;
      const { id } = said.body;
      if ((await house.ask(house.owner, releaseFirmware, { id })).code !== null) return;
      await confirmed(house, house.random.pick(house.lights), {
        action: 'update_firmware',
        params: { firmware_id: id },
      });
    });
  },

  /** Data that the database refuses: once per device, so that no actor is quarantined for repeated failures. */
  refusedData: async (house) => {
    const devices = house.random.shuffled(house.devices);
    await house.repeat(8_000, async () => {
      devices.pop()?.reportRefused();
      if (!house.random.chance(0.3)) return;
      const said = await house.ask(house.owner, createPlan, { ...planWish(house), name: REFUSED_PLAN });
      if (said.code === null) {
        house.world.fail(
          'refused-data-is-refused-alone',
          `plan ${said.body.plan.id} was answered 202 and cannot be stored`,
        );
      }
    });
  },

  reads: (house) =>
    house.repeat(1_500, async () => {
      const person = house.random.pick([house.owner, house.flatmate]);
      if (house.random.chance(0.5)) await house.ask(person, listDevices, {});
      else await house.ask(person, getDevice, { id: house.random.pick(house.devices).id });
    }),
} satisfies Record<string, Part>;

export type PartName = keyof typeof parts;
export const partNames = Object.keys(parts) as PartName[];

/** Requests a critical command and confirms it, as a user who may, and occasionally as one who may not. */
async function confirmed(house: SimulatedTenant, device: Device, wish: object): Promise<void> {
  const { owner, flatmate, random, ledger } = house;
  const said = await house.ask(owner, commandDevice, { deviceId: device.id, timeout_s: 30, ...wish });
  if (said.code !== null) return;
  const { dry_run_token, command_id } = said.body;
  if (dry_run_token === undefined) {
    house.world.fail('critical-needs-confirmation', `a critical command was dispatched at once: ${command_id}`);
    return;
  }
  if (random.chance(0.15)) return;
  await house.pause(2_000);
  for (const person of random.chance(0.5) ? [owner, flatmate] : [flatmate]) {
    ledger.confirms(command_id, person.id);
    const confirm = { deviceId: device.id, dry_run_token };
    const id = await dispatched(house, device, person, confirmCommand, confirm);
    if (id !== null) ledger.commands.set(id, device.id);
  }
}

/** Sends a request that is answered with a dispatched command; null if it is refused. */
async function dispatched(
  house: SimulatedTenant,
  device: Device,
  person: Person,
  operation: Operation,
  input: object,
): Promise<string | null> {
  const { ledger, world } = house;
  const shutAt = ledger.shut.has(device.id) ? ledger.shutAt.get(device.id) : undefined;
  const said = await house.ask(person, operation, input);
  if (said.code !== null) return null;
  const { command_id: id } = said.body;
  if (shutAt !== undefined && ledger.shut.has(device.id) && ledger.shutAt.get(device.id) === shutAt) {
    world.fail('nothing-to-revoked-devices', `command ${id} was dispatched to ${device.id}, which is revoked`);
  }
  return id;
}

function planWish({ random, lights, locks }: SimulatedTenant): object {
  const ids = Array.from({ length: 2 + random.int(4) }, (_, n) => `step-${n}`);
  const steps = ids.map((id, n) => {
    const before = ids.slice(0, n).filter(() => random.chance(0.4));
    if (random.chance(0.1)) return { id, device_id: random.pick(locks).id, action: 'unlock', depends_on: before };
    return {
      id,
      device_id: random.pick(lights).id,
      action: 'set_brightness',
      params: { level: random.int(101) },
      depends_on: before,
      ...(random.chance(0.8) && { compensation: { action: 'turn_off' } }),
    };
  });
  return { name: 'plan', steps, on_failure: random.pick(['rollback', 'rollback', 'stop']) };
}

/** At most one change of a device's keys at a time. */
async function changing(house: SimulatedTenant, device: Device, change: () => Promise<void>): Promise<void> {
  if (house.changing.has(device.id)) return;
  house.changing.add(device.id);
  await change();
  // A sign-in that was verified before can still be in progress.
  await house.world.scheduler.sleep(15_000);
  house.changing.delete(device.id);
}
