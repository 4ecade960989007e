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
import { importNumbers } from './imports.ts';
import type { SimulatedTenant } from './simulated-tenant.ts';

/** A plan name that the database refuses to store. */
export const REFUSED_PLAN = 'refused';

/** One kind of work; after the fault phase it restores everything that it had changed, and ends. */
export type Part = (service: SimulatedTenant) => Promise<unknown>;

/** Each kind can be disabled, with which the shrinker reduces a failing run. */
export const parts = {
  reports: (service) =>
    Promise.all(
      service.devices.map((device) => {
        const gap = service.random.pick([20, 200, 1_500]);
        return service.repeat(gap, async () => {
          if (service.random.chance(0.1)) device.heartbeat();
          else device.count();
        });
      }),
    ),

  imports: (service) => service.repeat(2_500, () => importNumbers(service, service.random.pick(service.devices))),

  commands: (service) =>
    service.repeat(1_000, async () => {
      const device = service.random.pick(service.lights);
      const params = { level: service.random.int(101) };
      const input = { deviceId: device.id, action: 'set_brightness', params, ttl_s: 60, timeout_s: 30 };
      const id = await dispatched(service, device, service.owner, commandDevice, input);
      if (id !== null) service.ledger.commands.set(id, device.id);
    }),

  critical: (service) =>
    service.repeat(3_000, () => confirmed(service, service.random.pick(service.locks), { action: 'unlock' })),

  plans: (service) =>
    service.repeat(4_000, async () => {
      const sent = await service.request(service.owner, createPlan, planInput(service));
      if (sent.code !== null) return;
      service.ledger.plans.add(sent.body.plan.id);
      if (!service.random.chance(0.15)) return;
      await service.pause(3_000);
      await service.request(service.flatmate, cancelPlan, { id: sent.body.plan.id });
    }),

  /** Approves pending confirmations in the inbox, occasionally as a user who may not. */
  inbox: (service) =>
    service.repeat(4_000, async () => {
      const person = service.random.pick([service.owner, service.flatmate]);
      const sent = await service.request(person, listConfirmations, {});
      if (sent.code !== null) return;
      for (const { command_id } of sent.body.confirmations) {
        if (!service.random.chance(0.7)) continue;
        service.ledger.confirms(command_id, person.id);
        await service.request(person, approveConfirmation, { command_id });
      }
    }),

  rotations: (service) =>
    service.repeat(6_000, async () => {
      const device = service.random.pick(service.devices);
      await changing(service, device, async () => {
        const { key_version, new_secret } = await service.mustChange(service.owner, rotateSecret, { id: device.id });
        // The key before the one that is now in its grace period has ended.
        service.ledger.endKeysBelow(device.id, key_version - 1);
        const bring = () => device.secrets.set(key_version, new_secret);
        const mustHurry = device.newestKey < key_version - 1;
        if (mustHurry || service.random.chance(0.5)) bring();
        else service.world.scheduler.at(service.random.pick([500, 5_000, 86_400_000 + 3_600_000]), bring, null);
      });
    }),

  revocations: (service) =>
    service.repeat(12_000, async () => {
      const device = service.random.pick(service.devices);
      await changing(service, device, async () => {
        await service.mustChange(service.flatmate, revokeDevice, { id: device.id, reason: 'lost' });
        service.ledger.revoked(device.id, service.world.now());
        await service.pause(6_000);
        service.ledger.shut.delete(device.id);
        const back = await service.mustChange(service.owner, reinstateDevice, { id: device.id, reason: 'found' });
        service.ledger.endKeysBelow(device.id, back.key_version);
        device.beginAnew(back.key_version, back.new_secret);
      });
    }),

  suspensions: (service) =>
    service.repeat(25_000, async () => {
      service.suspended = 'maybe';
      const sent = await service.request(service.operator, suspendTenant, { id: service.tenantId });
      if (sent.code === null) {
        service.suspended = 'yes';
        await service.pause(4_000);
        service.suspended = 'maybe';
      }
      await service.must(service.operator, resumeTenant, { id: service.tenantId });
      // A sign-in that was verified before can still be in progress.
      await service.world.scheduler.sleep(10_000);
      service.suspended = 'no';
    }),

  flags: (service) =>
    service.repeat(10_000, async () => {
      const flag = service.random.pick(['commands_disabled', 'maintenance_mode', 'registration_lock'] as const);
      const sent = await service.request(service.operator, setFlag, { flag, state: true });
      if (sent.code === null) service.ledger.raise(flag);
      await service.pause(5_000);
      service.ledger.lower(flag);
      await service.must(service.operator, setFlag, { flag, state: false });
      service.ledger.flagsAnswered.set(flag, false);
    }),

  firmware: async (service) => {
    let serial = 0;
    await service.repeat(10_000, async () => {
      const version = `1.${++serial}.0`;
      const checksum = 'ab'.repeat(32);
      const input = { device_type: 'smart_light', version, url: 'https://example.com/fw.bin', checksum };
      const sent = await service.request(service.owner, createRelease, input);
      if (sent.code !== null) return;
      const { id } = sent.body;
      await service.mustChange(service.owner, releaseFirmware, { id });
      await confirmed(service, service.random.pick(service.lights), {
        action: 'update_firmware',
        params: { firmware_id: id },
      });
    });
  },

  /** Data that the database refuses: once per device, so that no actor is quarantined for repeated failures. */
  refusedData: async (service) => {
    const devices = service.random.shuffled(service.devices);
    await service.repeat(8_000, async () => {
      devices.pop()?.reportRefused();
      if (!service.random.chance(0.3)) return;
      const sent = await service.request(service.owner, createPlan, { ...planInput(service), name: REFUSED_PLAN });
      if (sent.code === null) {
        service.world.fail(
          'rejected-data-does-not-affect-its-batch',
          `plan ${sent.body.plan.id} was answered 202 and cannot be stored`,
        );
      }
    });
  },

  reads: (service) =>
    service.repeat(1_500, async () => {
      const person = service.random.pick([service.owner, service.flatmate]);
      if (service.random.chance(0.5)) await service.request(person, listDevices, {});
      else await service.request(person, getDevice, { id: service.random.pick(service.devices).id });
    }),
} satisfies Record<string, Part>;

export type PartName = keyof typeof parts;
export const partNames = Object.keys(parts) as PartName[];

/** Requests a critical command and confirms it, as a user who may, and occasionally as one who may not. */
async function confirmed(service: SimulatedTenant, device: Device, input: object): Promise<void> {
  const { owner, flatmate, random, ledger } = service;
  const sent = await service.request(owner, commandDevice, { deviceId: device.id, timeout_s: 30, ...input });
  if (sent.code !== null) return;
  const { dry_run_token, command_id } = sent.body;
  if (dry_run_token === undefined) {
    service.world.fail(
      'critical-commands-need-confirmation',
      `a critical command was dispatched at once: ${command_id}`,
    );
    return;
  }
  if (random.chance(0.15)) return;
  await service.pause(2_000);
  for (const person of random.chance(0.5) ? [owner, flatmate] : [flatmate]) {
    ledger.confirms(command_id, person.id);
    const confirm = { deviceId: device.id, dry_run_token };
    const id = await dispatched(service, device, person, confirmCommand, confirm);
    if (id !== null) ledger.commands.set(id, device.id);
  }
}

/** Sends a request that is answered with a dispatched command; null if it is refused. */
async function dispatched(
  service: SimulatedTenant,
  device: Device,
  person: Person,
  operation: Operation,
  input: object,
): Promise<string | null> {
  const { ledger, world } = service;
  const shutAt = ledger.shut.has(device.id) ? ledger.shutAt.get(device.id) : undefined;
  const sent = await service.request(person, operation, input);
  // The device has reported another state since the preview.
  if (sent.code !== null || sent.body.status === 'dry_run_required') return null;
  const { command_id: id } = sent.body;
  if (shutAt !== undefined && ledger.shut.has(device.id) && ledger.shutAt.get(device.id) === shutAt) {
    world.fail('no-commands-to-revoked-devices', `command ${id} was dispatched to ${device.id}, which is revoked`);
  }
  return id;
}

function planInput({ random, lights, locks }: SimulatedTenant): object {
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
async function changing(service: SimulatedTenant, device: Device, change: () => Promise<void>): Promise<void> {
  if (service.changing.has(device.id)) return;
  service.changing.add(device.id);
  await change();
  // A sign-in that was verified before can still be in progress.
  await service.world.scheduler.sleep(15_000);
  service.changing.delete(device.id);
}
