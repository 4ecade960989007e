import { type CommandStatus, isFinalCommandStatus } from '../../src/domain/command.ts';
import type { Uuid } from '../../src/domain/values.ts';
import { type DeviceIdentity, RawDevice } from '../support/raw-device.ts';
import { RawConnection } from '../support/raw-http.ts';

/*
 * The load process of the recovery benchmark: devices and callers. They record every acknowledgement of the service,
 * and verify each of them after the service was killed. Controlled by messages.
 */

export interface Ports {
  port: number;
  mqttPort: number;
}

export interface LoadSetup {
  token: string;
  /** Devices that receive commands and do not answer until `recover`. */
  commanded: DeviceIdentity[];
  /** Devices that report a counter periodically, with several reports in flight. */
  reporting: DeviceIdentity[];
}

export interface Recovered {
  /**
   * Time in epoch milliseconds at which the final acknowledgement of the first command after the crash is committed.
   */
  firstCommandAt: number;
  /** Time at which all devices are connected again. */
  backAt: number;
}

export interface DurabilityReport {
  /** Number of commands answered with 202 and of acknowledged counters, since the beginning. */
  commands: number;
  counters: number;
  /** Descriptions of acknowledged data that is missing or wrong. */
  broken: string[];
}

const CALLERS = 16;
const REPORTS_IN_FLIGHT = 4;
/** Interval of a device's reports, in milliseconds. */
const REPORT_EVERY_MS = 200;
/** Longer than any recovery. */
const COMMAND_LIFETIME_S = 3_600;

let token = '';
let ports: Ports = { port: 0, mqttPort: 0 };
let commanded: RawDevice[] = [];
let reporters: Reporter[] = [];
let answering = false;
/** Ids of all commands answered with 202. */
const accepted = new Set<Uuid>();
const heldAcks: (() => void)[] = [];
let sendingCommands = false;
let sendersDone: Promise<unknown> = Promise.resolve();

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A device whose counter increases with each report; unacknowledged reports are sent again. */
class Reporter {
  readonly device: RawDevice;
  sent = 0;
  acknowledged = 0;
  #timer: NodeJS.Timeout | null = null;
  readonly #unacknowledged = new Map<number, number>();

  constructor(identity: DeviceIdentity) {
    this.device = new RawDevice(identity);
  }

  start(): void {
    for (const [sequence, counter] of this.#unacknowledged) this.#report(sequence, counter);
    this.#timer = setInterval(() => {
      if (this.#unacknowledged.size >= REPORTS_IN_FLIGHT) return;
      this.sent += 1;
      this.#report(this.device.takeSequence(), this.sent);
    }, REPORT_EVERY_MS);
  }

  /** Sends no new reports; outstanding acknowledgements are still awaited. */
  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
  }

  isDrained(): boolean {
    return this.#unacknowledged.size === 0;
  }

  #report(sequence: number, counter: number): void {
    this.#unacknowledged.set(sequence, counter);
    this.device.send(this.device.compose('state', { state: { counter } }, sequence), () => {
      this.#unacknowledged.delete(sequence);
      this.acknowledged = Math.max(this.acknowledged, counter);
    });
  }
}

function setUp(setup: LoadSetup): void {
  token = setup.token;
  commanded = setup.commanded.map((identity) => new RawDevice(identity));
  for (const device of commanded) {
    device.onCommand = ({ commandId }) => {
      const acknowledge = () => device.publish('cmd_ack', { command_id: commandId, status: 'succeeded' }, () => {});
      if (answering) acknowledge();
      else heldAcks.push(acknowledge);
    };
  }
  reporters = setup.reporting.map((identity) => new Reporter(identity));
}

/** Connects every device; a rejected one retries, as devices do. */
async function connect(at: Ports): Promise<void> {
  ports = at;
  const open = async (device: RawDevice, commands: boolean) => {
    for (;;) {
      try {
        await device.open(ports.mqttPort, { commands });
        return;
      } catch {
        await pause(20);
      }
    }
  };
  const queue = [
    ...reporters.map((reporter) => async () => {
      await open(reporter.device, false);
      reporter.start();
    }),
    ...commanded.map((device) => () => open(device, true)),
  ];
  const worker = async () => {
    for (let next = queue.shift(); next; next = queue.shift()) await next();
  };
  await Promise.all(Array.from({ length: 50 }, worker));
}

async function post(caller: RawConnection, deviceId: Uuid): Promise<Uuid> {
  const body = `{"action":"turn_on","ttl_s":${COMMAND_LIFETIME_S},"timeout_s":${COMMAND_LIFETIME_S}}`;
  const answer = await caller.post(`/v1/device/${deviceId}/command`, `Authorization: Bearer ${token}\r\n`, body);
  if (answer.status !== 202) throw new Error(`${answer.status} ${answer.body}`);
  const { command_id: id } = JSON.parse(answer.body) as { command_id: Uuid };
  accepted.add(id);
  return id;
}

/** Brings `count` commands in flight, and continues to send more until the service is gone. */
async function startCommands(count: number): Promise<void> {
  answering = false;
  sendingCommands = true;
  const before = accepted.size;
  let n = 0;
  const loop = async () => {
    const caller = await RawConnection.open(ports.port);
    while (sendingCommands) {
      n += 1;
      await post(caller, (commanded[n % commanded.length] as RawDevice).identity.deviceId);
    }
  };
  // The requests end when the service does.
  sendersDone = Promise.allSettled(Array.from({ length: CALLERS }, loop));
  while (accepted.size - before < count) await pause(1);
}

/** After the kill: reconnects, sends one more command until it has succeeded, then lets all other commands end. */
async function recover(at: Ports): Promise<Recovered> {
  await sendersDone;
  sendingCommands = false;
  heldAcks.length = 0; // A disconnected device receives its commands again.
  answering = true;
  for (const reporter of reporters) {
    reporter.stop();
    reporter.device.close();
  }
  const [probe, ...others] = commanded as [RawDevice, ...RawDevice[]];
  for (const device of others) device.close();
  const back = connect(at);
  const firstCommandAt = await firstCommand(probe, at);
  await back;
  return { firstCommandAt, backAt: Date.now() };
}

async function firstCommand(probe: RawDevice, at: Ports): Promise<number> {
  for (;;) {
    try {
      const caller = await RawConnection.open(at.port);
      const id = await post(caller, probe.identity.deviceId);
      for (;;) {
        const { status } = await commandOf(caller, id);
        if (status === 'succeeded') break;
        await pause(1);
      }
      caller.close();
      return Date.now();
    } catch {
      await pause(5);
    }
  }
}

async function commandOf(caller: RawConnection, id: Uuid): Promise<{ status: string }> {
  const answer = await caller.get(`/v1/commands/${id}`, `Authorization: Bearer ${token}\r\n`);
  if (answer.status === 404) return { status: 'lost' };
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
  return (JSON.parse(answer.body) as { command: { status: string } }).command;
}

/** Compares the service's data with what it acknowledged. */
async function checkDurability(): Promise<DurabilityReport> {
  for (const reporter of reporters) reporter.stop();
  const until = performance.now() + 30_000;
  while (!reporters.every((reporter) => reporter.isDrained()) && performance.now() < until) await pause(5);
  const broken: string[] = [];
  const caller = await RawConnection.open(ports.port);
  for (const id of accepted) {
    let { status } = await commandOf(caller, id);
    while (!isFinalCommandStatus(status as CommandStatus) && status !== 'lost' && performance.now() < until) {
      await pause(5);
      ({ status } = await commandOf(caller, id));
    }
    if (status !== 'succeeded') broken.push(`command ${id} is ${status}`);
  }
  let counters = 0;
  for (const { device, sent, acknowledged } of reporters) {
    const { deviceId } = device.identity;
    const answer = await caller.get(`/v1/devices/${deviceId}`, `Authorization: Bearer ${token}\r\n`);
    const { device: shown } = JSON.parse(answer.body) as {
      device: { state: { counter?: number }; state_version: number };
    };
    counters += acknowledged;
    // One report was made at registration; each counter after it increases the version by one.
    const matches = shown.state.counter === sent && shown.state_version === sent + 1 && acknowledged === sent;
    if (matches) continue;
    const seen = `counter ${shown.state.counter}, version ${shown.state_version}`;
    broken.push(`device ${deviceId}: sent ${sent}, acknowledged ${acknowledged}, ${seen}`);
  }
  caller.close();
  return { commands: accepted.size, counters, broken };
}

interface LoadMessage {
  setUp?: LoadSetup;
  connect?: Ports;
  startCommands?: number;
  recover?: Ports;
  check?: true;
}

process.on('message', (message: LoadMessage) => {
  const answer = async (): Promise<object> => {
    if (message.setUp) setUp(message.setUp);
    if (message.connect) await connect(message.connect);
    if (message.startCommands) await startCommands(message.startCommands);
    if (message.recover) return { recovered: await recover(message.recover) };
    if (message.check) return { report: await checkDurability() };
    return { done: true };
  };
  answer().then(
    (value) => process.send?.(value),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));
