import { describe, expect, inject, it, vi } from 'vitest';
import type { HandlerContext } from '../../../src/device/command-runner.ts';
import { ChecksumMismatch, type FirmwareWanted } from '../../../src/device/firmware/fetch.ts';
import { simulateClimate } from '../../../src/device/homes/climate.ts';
import { simulateCover } from '../../../src/device/homes/cover.ts';
import { simulateLight } from '../../../src/device/homes/light.ts';
import { simulateLock } from '../../../src/device/homes/lock.ts';
import { maintenanceCommands } from '../../../src/device/homes/maintenance.ts';
import { startSimulatedDevice } from '../../../src/device/homes/running-device.ts';
import { simulateSensor } from '../../../src/device/homes/sensor.ts';
import {
  realEnvironment,
  type SimulatedDevice,
  type SimulationEnvironment,
} from '../../../src/device/homes/simulated-device.ts';
import { createSimulatedDevice, createSimulatedHome } from '../../../src/device/homes/simulated-home.ts';
import { automaticManifest } from '../../../src/domain/capability-registry.ts';
import type { Capability } from '../../../src/domain/manifest.ts';
import { applyReport, contains, expectedState, type Twin, twinOf } from '../../../src/domain/twin.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import { SmallCloud } from '../fake-cloud.ts';

const noon = Date.UTC(2026, 5, 1, 12);

/** A deterministic environment in which pauses take no time. */
function quietWorld(): SimulationEnvironment & { now: number } {
  const world = {
    now: noon,
    clock: { now: () => world.now },
    random: () => 0.5,
    pause: () => Promise.resolve(),
    fetchFirmware: async ({ checksum, progress }: FirmwareWanted) => {
      if (checksum === 'wrong') throw new ChecksumMismatch('the checksum does not match');
      for (const received of [10, 30, 55, 60, 80, 100]) progress?.(received, 100);
      return { bytes: 100, content: null };
    },
  };
  return world;
}

/** The device with its twin as the service would store it. */
class Watched {
  twin: Twin;
  readonly progress: number[] = [];
  readonly #device: SimulatedDevice;
  readonly #commands;

  constructor(device: SimulatedDevice, world: SimulationEnvironment, reboot: () => void = () => {}) {
    this.#device = device;
    this.#commands = { ...maintenanceCommands(device, world, { reboot, trustedHosts: [] }), ...device.commands };
    this.twin = twinOf(structuredClone(device.state));
  }

  async run(action: string, params: JsonObject = {}): Promise<Json | undefined> {
    const context: HandlerContext = {
      commandId: action,
      action,
      signal: new AbortController().signal,
      progress: (progress, state) => {
        this.progress.push(progress);
        this.report(state);
      },
    };
    const handler = this.#commands[action];
    if (handler === undefined) throw new Error(`does not know ${action}`);
    const done = await handler(params, context);
    this.report(done?.state);
    return done?.result;
  }

  tick(elapsedS: number): JsonObject | null {
    const changed = this.#device.tick(elapsedS);
    if (changed !== null) this.report(changed);
    return changed;
  }

  report(patch: JsonObject | undefined): void {
    if (patch === undefined) return;
    const reported = applyReport(this.twin, structuredClone(patch));
    if (!reported.ok) throw new Error(reported.code);
    this.twin = reported.twin;
    expect(this.twin.state).toEqual(this.#device.state);
  }
}

/** A value that the schema of a capability's property allows. */
function sample(schema: JsonObject): Json {
  if (Array.isArray(schema.enum)) return schema.enum[0] as Json;
  if (schema.type === 'string') return 'none';
  if (schema.type === 'boolean') return true;
  return typeof schema.maximum === 'number' ? Math.min(40, schema.maximum) : 7;
}

/** Parameters that the service adds. */
const UPDATE = { version: '9.0.0', url: 'https://example.com/9', checksum: 'right' };

function sampleParams({ action, paramSchema }: Capability): JsonObject {
  const properties = paramSchema.properties as Record<string, JsonObject>;
  const params = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, sample(schema)]));
  return action === 'update_firmware' ? { ...params, ...UPDATE } : params;
}

describe('the simulated home', () => {
  it('has a light, a lock, a thermostat, a sensor and a cover, each of a category with a manifest', () => {
    const categories = createSimulatedHome(quietWorld()).map(
      ({ deviceType }) => automaticManifest({ deviceId: 'd', tenantId: 't', deviceType })?.category,
    );
    expect(categories).toEqual(['light', 'lock', 'climate', 'sensor', 'cover']);
  });

  it('of many devices alternates the kinds and numbers them', () => {
    expect([0, 1, 5, 11].map((n) => createSimulatedDevice(quietWorld(), n).name)).toEqual([
      'Ceiling light 1',
      'Front door 1',
      'Ceiling light 2',
      'Front door 3',
    ]);
  });
});

describe.each(createSimulatedHome(quietWorld()).map((device, n) => [device.deviceType, n] as const))(
  'a %s',
  (deviceType, n) => {
    const manifest = automaticManifest({ deviceId: 'd', tenantId: 't', deviceType });
    const offered = (manifest?.capabilities ?? []).filter(({ safetyClass }) => safetyClass !== 'RESTRICTED');

    it.each(offered.map((capability) => [capability.action, capability] as const))(
      'runs %s and reports the expected state',
      async (action, capability) => {
        const world = quietWorld();
        const device = createSimulatedHome(world)[n] as SimulatedDevice;
        const watched = new Watched(device, world);
        const params = sampleParams(capability);
        await watched.run(action, params);
        const expected = expectedState(capability.expectedState, params);
        if (expected !== null) expect(contains(watched.twin.state, expected)).toBe(true);
      },
    );

    it('refuses parameters of the wrong type with a message', async () => {
      const world = quietWorld();
      const watched = new Watched(createSimulatedHome(world)[n] as SimulatedDevice, world);
      for (const { action, paramSchema } of offered) {
        if (!Array.isArray(paramSchema.required)) continue;
        await expect(watched.run(action, {})).rejects.toThrow(/ must be a /);
      }
    });

    it('reports only its own properties for a day, and heartbeats within their bounds', () => {
      const world = quietWorld();
      const device = createSimulatedHome(world)[n] as SimulatedDevice;
      const watched = new Watched(device, world);
      for (let minute = 0; minute < 24 * 60; minute++) {
        world.now += 60_000;
        watched.tick(60);
      }
      expect(device.heartbeat?.().rssi).toBeLessThan(-40);
      expect(JSON.stringify(device.state).length).toBeLessThan(400);
    });

    it('returns to the factory state, and removes added properties', async () => {
      const world = quietWorld();
      const device = createSimulatedHome(world)[n] as SimulatedDevice;
      const delivered = structuredClone(device.state);
      const watched = new Watched(device, world);
      for (const capability of offered) await watched.run(capability.action, sampleParams(capability));
      device.state.extra = 1;
      watched.report({ extra: 1 });
      await watched.run('factory_reset');
      expect(device.state).toEqual(delivered);
    });

    it('installs new firmware with progress reports and restarts', async () => {
      const world = quietWorld();
      const device = createSimulatedHome(world)[n] as SimulatedDevice;
      const reboot = vi.fn();
      const watched = new Watched(device, world, reboot);
      expect(await watched.run('update_firmware', UPDATE)).toEqual({ version: '9.0.0', bytes: 100 });
      expect(watched.progress).toEqual([25, 50, 75]);
      expect(device.firmware).toBe('9.0.0');
      await vi.waitFor(() => expect(reboot).toHaveBeenCalledOnce(), inject('pollMs'));
      const tampered = { ...UPDATE, version: '10.0.0', checksum: 'wrong' };
      await expect(watched.run('update_firmware', tampered)).rejects.toThrow('the checksum does not match');
      expect(device.firmware).toBe('9.0.0');
      expect(reboot).toHaveBeenCalledOnce();
    });
  },
);

describe('a light', () => {
  it('turns off when dimmed to 0, and gives light when switched on after that', async () => {
    const light = new Watched(simulateLight(quietWorld()), quietWorld());
    await light.run('set_brightness', { level: 40 });
    expect(light.twin.state).toMatchObject({ on: true, brightness: 40, power_w: 4.1 });
    await light.run('set_brightness', { level: 0 });
    expect(light.twin.state).toMatchObject({ on: false, brightness: 0, power_w: 0.3 });
    await light.run('toggle');
    expect(light.twin.state).toMatchObject({ on: true, brightness: 100 });
    await light.run('toggle');
    expect(light.twin.state).toMatchObject({ on: false, brightness: 100 });
  });

  it('counts the energy it uses', async () => {
    const light = new Watched(simulateLight(quietWorld()), quietWorld());
    await light.run('set_brightness', { level: 100 });
    for (let minute = 0; minute < 60; minute++) light.tick(60);
    expect(light.twin.state.energy_wh).toBeCloseTo(9.8, 1);
    expect(light.tick(0)).toEqual({});
  });

  it('is switched manually at random', () => {
    const light = new Watched(simulateLight({ ...quietWorld(), random: () => 0 }), quietWorld());
    expect(light.tick(60)).toMatchObject({ on: true });
  });

  it('keeps its saturation when only the hue is set, and accepts only its own effects', async () => {
    const light = new Watched(simulateLight(quietWorld()), quietWorld());
    await light.run('set_color', { hue: 200 });
    expect(light.twin.state.color).toEqual({ hue: 200, saturation: 20 });
    await expect(light.run('set_effect', { effect: 'strobe' })).rejects.toThrow('effect must be one of none, ');
  });
});

describe('a lock', () => {
  it('cannot lock an open door, which closes after a while', async () => {
    const lock = new Watched(simulateLock(quietWorld()), quietWorld());
    await lock.run('unlatch');
    expect(lock.twin.state).toMatchObject({ locked: false, door_open: true });
    await expect(lock.run('lock')).rejects.toThrow('the door is open');
    expect(lock.tick(6)).toBeNull();
    expect(lock.tick(6)).toEqual({ door_open: false });
    await lock.run('lock');
    expect(lock.twin.state.locked).toBe(true);
    expect(lock.tick(60)).toBeNull();
  });

  it('locks automatically when configured', async () => {
    const lock = new Watched(simulateLock(quietWorld()), quietWorld());
    await lock.run('set_auto_lock', { seconds: 30 });
    await lock.run('unlock');
    expect(lock.tick(20)).toBeNull();
    expect(lock.tick(10)).toEqual({ locked: true });
  });

  it('is opened at random while unlocked', async () => {
    const lock = new Watched(simulateLock({ ...quietWorld(), random: () => 0 }), quietWorld());
    await lock.run('unlock');
    expect(lock.tick(1)).toEqual({ door_open: true });
  });
});

describe('a thermostat', () => {
  it('heats to its target, stops there, and lets the room cool down when off', async () => {
    const world = quietWorld();
    const climate = new Watched(simulateClimate(world), world);
    await climate.run('set_temperature', { celsius: 23 });
    expect(climate.twin.state).toMatchObject({ target_celsius: 23, activity: 'heating' });
    const live = (minutes: number) => {
      for (let minute = 0; minute < minutes; minute++) climate.tick(60);
    };
    live(60);
    expect(climate.twin.state.temperature).toBeGreaterThan(22.4);
    expect(climate.twin.state.temperature).toBeLessThan(23.4);
    await climate.run('turn_off');
    expect(climate.twin.state.activity).toBe('idle');
    live(8 * 60);
    expect(climate.twin.state.temperature).toBeLessThan(18.5);
  });

  it('cools, dries and ventilates according to its mode', async () => {
    const world = quietWorld();
    const climate = new Watched(simulateClimate(world), world);
    const activity = async (mode: string, celsius: number) => {
      await climate.run('set_temperature', { celsius });
      await climate.run('set_mode', { mode });
      return climate.twin.state.activity;
    };
    expect(await activity('cool', 18)).toBe('cooling');
    climate.tick(600);
    expect(climate.twin.state.temperature).toBeLessThan(20);
    expect(await activity('heat', 18)).toBe('idle');
    expect(await activity('auto', 18)).toBe('cooling');
    expect(await activity('auto', 25)).toBe('heating');
    expect(await activity('fan_only', 25)).toBe('fan');
    expect(await activity('dry', 25)).toBe('drying');
    await climate.run('set_humidity', { percent: 30 });
    for (let hour = 0; hour < 5; hour++) climate.tick(3_600);
    expect(climate.twin.state.humidity).toBe(30);
    expect(await activity('off', 25)).toBe('idle');
  });
});

describe('a sensor', () => {
  it('reports at its configured interval', async () => {
    const world = quietWorld();
    const sensor = new Watched(simulateSensor(world), world);
    await sensor.run('set_report_interval', { seconds: 10 });
    expect(sensor.tick(9)).toBeNull();
    expect(sensor.tick(1)).toMatchObject({ temperature: expect.any(Number), humidity: expect.any(Number) });
    expect(sensor.tick(9)).toBeNull();
    expect(await sensor.run('read_now')).toMatchObject({ temperature: sensor.twin.state.temperature });
  });

  it('keeps an alarm until it is cleared', async () => {
    const world = quietWorld();
    const sensor = new Watched(simulateSensor(world), world);
    await sensor.run('set_thresholds', { low: 30, high: 40 });
    await sensor.run('read_now');
    expect(sensor.twin.state.alarm).toBe(true);
    await sensor.run('set_thresholds', { low: -10, high: 40 });
    await sensor.run('read_now');
    expect(sensor.twin.state.alarm).toBe(true);
    await sensor.run('clear_alarm');
    await sensor.run('read_now');
    expect(sensor.twin.state.alarm).toBe(false);
    await expect(sensor.run('set_thresholds', { low: 2, high: 1 })).rejects.toThrow('low must not be above high');
  });

  it('applies its calibration; it is bright at noon and dark at night', async () => {
    const world = quietWorld();
    const sensor = new Watched(simulateSensor(world), world);
    await sensor.run('calibrate', { reference: 20 });
    expect(sensor.twin.state.temperature).toBeCloseTo(20, 0);
    expect(sensor.twin.state.illuminance_lx).toBe(720);
    world.now += 12 * 3_600_000;
    await sensor.run('read_now');
    expect(sensor.twin.state.illuminance_lx).toBe(0);
    expect(sensor.twin.state.temperature).toBeLessThan(14);
  });
});

describe('a cover', () => {
  it('reports its progress and position while moving', async () => {
    const cover = new Watched(simulateCover(quietWorld()), quietWorld());
    await cover.run('close');
    expect(cover.progress).toEqual([20, 40, 60, 80]);
    expect(cover.twin.state).toMatchObject({ position: 0, movement: 'stopped' });
    expect(cover.tick(1)).toBeNull();
    await cover.run('set_position', { position: 30 });
    await cover.run('set_position', { position: 30 });
    expect(cover.twin.state.position).toBe(30);
  });

  it('stops immediately: the interrupted movement fails with the position', async () => {
    const steps: (() => void)[] = [];
    const world = { ...quietWorld(), pause: () => new Promise<void>((resolve) => steps.push(resolve)) };
    const cover = new Watched(simulateCover(world), world);
    const closing = cover.run('close');
    steps.shift()?.();
    await vi.waitFor(() => expect(steps).toHaveLength(1), inject('pollMs'));
    await cover.run('stop');
    steps.shift()?.();
    await expect(closing).rejects.toThrow('interrupted at 80 %');
    expect(cover.twin.state).toMatchObject({ position: 80, movement: 'stopped' });
  });
});

describe('a running simulated device', () => {
  it('reports its full state, runs commands, ticks, restarts and stops', async () => {
    const cloud = await SmallCloud.start();
    const world = quietWorld();
    world.random = () => 0;
    cloud.serverTime = () => world.now;
    const registration = { ...cloud.registration(), backoff: { minMs: 5, maxMs: 10 } };
    const running = await startSimulatedDevice(simulateLight(world), world, registration, 10);
    try {
      const until = (assertion: () => void) => vi.waitFor(assertion, { timeout: inject('pollMs'), interval: 5 });
      await until(() => expect(cloud.payloads('state')[0]).toMatchObject({ full: true, state: { on: false } }));
      expect(cloud.payloads('hello')[0]).toMatchObject({ firmware: '1.4.2', device_type: 'smart_light' });
      const id = cloud.command('set_brightness', { level: 40 });
      await until(() =>
        expect(cloud.acks(id).at(-1)).toMatchObject({ status: 'succeeded', state: { brightness: 40 } }),
      );
      expect(running.device.state).toMatchObject({ on: true, brightness: 40 });
      world.now += 60_000;
      await until(() => expect(cloud.payloads('state').at(-1)).toMatchObject({ state: { on: false } }));
      cloud.command('reboot');
      await until(() => expect(cloud.sessions).toHaveLength(2));
      expect(cloud.refused).toEqual([]);
    } finally {
      await running.stop();
      await cloud.stop();
    }
  });
});

describe('the real environment', () => {
  it('pauses until it is interrupted', async () => {
    const { pause, clock, random } = realEnvironment();
    expect(clock.now()).toBeGreaterThan(noon - 365 * 86_400_000);
    expect(random()).toBeLessThan(1);
    const signal = new AbortController();
    await pause(1, signal.signal);
    const waiting = pause(60_000, signal.signal);
    signal.abort();
    await expect(waiting).rejects.toThrow('interrupted');
    await expect(pause(60_000, signal.signal)).rejects.toThrow('interrupted');
  });
});
