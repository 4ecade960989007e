import { makeApi } from '../../src/cli/api.ts';
import { type RegisteredDevice, registerSimulatedDevice, startDevice } from '../../src/cli/simulation.ts';
import type { RunningDevice } from '../../src/device/homes/running-device.ts';
import { realEnvironment, type SimulatedDevice } from '../../src/device/homes/simulated-device.ts';
import { createSimulatedHome } from '../../src/device/homes/simulated-home.ts';
import { eventually } from './clock.ts';
import type { ApiClient, TestService } from './service.ts';

/** A home with simulated devices that are connected by MQTT. */
export interface SimulatedHome {
  members: readonly RegisteredDevice[];
  /** Id of the device that has this action. */
  idOf(action: string): string;
  /** Disconnects a device. */
  unplug(id: string): Promise<void>;
  /** Registers and connects another device. */
  add(simulated: SimulatedDevice): Promise<string>;
  stop(): Promise<void>;
}

/** A home with one device of each kind, all online. */
export async function startSimulatedHome(
  at: TestService,
  owner: ApiClient & { homeId: string },
): Promise<SimulatedHome> {
  const api = makeApi(at.url, owner.token);
  const environment = realEnvironment(() => 0.5);
  const members: RegisteredDevice[] = [];
  const running = new Map<string, RunningDevice>();

  async function add(simulated: SimulatedDevice): Promise<string> {
    const member = await registerSimulatedDevice(api, simulated, { homeId: owner.homeId });
    const id = member.registration.device_id;
    members.push(member);
    running.set(id, await startDevice(member, environment, 2_000));
    await eventually(async () => (await owner.get(`/v1/devices/${id}`)).body.device.online === true);
    return id;
  }

  for (const simulated of createSimulatedHome(environment)) await add(simulated);
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
