import { makeApi } from '../../src/cli/api.ts';
import { type RegisteredDevice, registerDevice, startDevice } from '../../src/cli/simulation.ts';
import type { RunningDevice } from '../../src/device/homes/running-device.ts';
import { realEnvironment, type SimulatedDevice } from '../../src/device/homes/simulated-device.ts';
import { createSimulatedHome } from '../../src/device/homes/simulated-home.ts';
import { eventually } from './clock.ts';
import type { ApiClient, TestService } from './service.ts';

/** A home whose devices really live: simulated ones, over MQTT. */
export interface SimulatedHome {
  members: readonly RegisteredDevice[];
  /** The device that can do this. */
  idOf(action: string): string;
  /** Takes one of them off the network. */
  unplug(id: string): Promise<void>;
  /** Registers and connects one more. */
  add(simulated: SimulatedDevice): Promise<string>;
  stop(): Promise<void>;
}

/** One of each kind, online when this resolves. */
export async function startSimulatedHome(
  at: TestService,
  owner: ApiClient & { homeId: string },
): Promise<SimulatedHome> {
  const api = makeApi(at.url, owner.token);
  const world = realEnvironment(() => 0.5);
  const members: RegisteredDevice[] = [];
  const running = new Map<string, RunningDevice>();

  async function add(simulated: SimulatedDevice): Promise<string> {
    const member = await registerDevice(api, simulated, { homeId: owner.homeId });
    const id = member.registration.device_id;
    members.push(member);
    running.set(id, await startDevice(member, world, 2_000));
    await eventually(async () => (await owner.get(`/v1/devices/${id}`)).body.device.online === true);
    return id;
  }

  for (const simulated of createSimulatedHome(world)) await add(simulated);
  return {
    members,
    add,
    idOf(action) {
      const member = members.find(({ simulated }) => Object.hasOwn(simulated.commands, action));
      if (member === undefined) throw new Error(`no device can ${action}`);
      return member.registration.device_id;
    },
    async unplug(id) {
      await running.get(id)?.stop();
      running.delete(id);
    },
    async stop() {
      await Promise.all([...running.values()].map(({ stop }) => stop()));
    },
  };
}
