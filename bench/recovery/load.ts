import type { Uuid } from '../../src/domain/values.ts';
import { type DeviceIdentity, RawDevice } from '../support/raw-device.ts';
import { RawConnection } from '../support/raw-http.ts';

/*
 * Devices and callers of the recovery benchmark, in a process of their own: they remember every promise that was made to them,
 * and hold the service to it after it was killed. It does what is asked in messages.
 */

export interface Ports {
  port: number;
  mqttPort: number;
}

export interface LoadSetup {
  token: string;
  /** They take commands and say nothing until they are told to answer. */
  commanded: DeviceIdentity[];
  /** They report a counter over and over, some in flight. */
  reporting: DeviceIdentity[];
}

export interface Recovered {
  /** Milliseconds of the epoch: the final word of a command that was asked for after the crash is committed. */
  firstCommandAt: number;
  /** All devices are back. */
  backAt: number;
}

export interface DurabilityReport {
  /** Commands that were answered with 202, and counters that were acknowledged, since the beginning. */
  commands: number;
  counters: number;
  /** What was promised and is not so, in words. */
  broken: string[];
}

const CALLERS = 16;
const REPORTS_IN_FLIGHT = 4;
/** Between two reports of a device, milliseconds. */
const REPORT_EVERY_MS = 200;
/** Reports and commands outlive any recovery. */
const COMMAND_LIFETIME_S = 3_600;
const FINAL_STATUSES = new Set(['succeeded', 'failed', 'timed_out', 'expired', 'cancelled', 'rejected']);

let token = '';
let ports: Ports = { port: 0, mqttPort: 0 };
let commanded: RawDevice[] = [];
let reporters: Reporter[] = [];
let answering = false;
/** Ids of all commands that were answered with 202. */
const promised = new Set<Uuid>();
const heldAnswers: (() => void)[] = [];
let sendingCommands = false;
let sendersDone: Promise<unknown> = Promise.resolve();

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** A device whose counter goes up with each report; it sends again what was not acknowledged. */
class Reporter {
  readonly device: RawDevice;
  sent = 0;
  acknowledged = 0;
  private ticking: NodeJS.Timeout | null = null;
  private readonly unanswered = new Map<number, number>();

  constructor(identity: DeviceIdentity) {
    this.device = new RawDevice(identity);
  }

  start(): void {
    for (const [sequence, counter] of this.unanswered) this.report(sequence, counter);
    this.ticking = setInterval(() => {
      if (this.unanswered.size >= REPORTS_IN_FLIGHT) return;
      this.sent += 1;
      this.report(this.device.takeSequence(), this.sent);
    }, REPORT_EVERY_MS);
  }

  /** Says nothing new; what is not acknowledged is still waited for. */
  stop(): void {
    if (this.ticking) clearInterval(this.ticking);
    this.ticking = null;
  }

  isDrained(): boolean {
    return this.unanswered.size === 0;
  }

  private report(sequence: number, counter: number): void {
    this.unanswered.set(sequence, counter);
    this.device.send(this.device.compose('state', { state: { counter } }, sequence), () => {
      this.unanswered.delete(sequence);
      this.acknowledged = Math.max(this.acknowledged, counter);
    });
  }
}

function setUp(asked: LoadSetup): void {
  token = asked.token;
  commanded = asked.commanded.map((identity) => new RawDevice(identity));
  for (const device of commanded) {
    device.onCommand = ({ commandId }) => {
      const answer = () => device.publish('cmd_ack', { command_id: commandId, status: 'succeeded' }, () => {});
      if (answering) answer();
      else heldAnswers.push(answer);
    };
  }
  reporters = asked.reporting.map((identity) => new Reporter(identity));
}

/** Every device comes back and goes on; those that are refused try again, as devices do. */
async function connect(at: Ports): Promise<void> {
  ports = at;
  const come = async (device: RawDevice, commands: boolean) => {
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
      await come(reporter.device, false);
      reporter.start();
    }),
    ...commanded.map((device) => () => come(device, true)),
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
  promised.add(id);
  return id;
}

/** Brings `count` commands in flight, and goes on asking for more until the service is gone. */
async function startCommands(count: number): Promise<void> {
  answering = false;
  sendingCommands = true;
  const before = promised.size;
  let n = 0;
  const loop = async () => {
    const caller = await RawConnection.open(ports.port);
    while (sendingCommands) {
      n += 1;
      await post(caller, (commanded[n % commanded.length] as RawDevice).identity.deviceId);
    }
  };
  // The end of the service is how this ends.
  sendersDone = Promise.allSettled(Array.from({ length: CALLERS }, loop));
  while (promised.size - before < count) await pause(1);
}

/** From the kill on: come back, ask for one more command, see it through; then let everything end. */
async function recover(at: Ports): Promise<Recovered> {
  await sendersDone;
  sendingCommands = false;
  heldAnswers.length = 0; // a device that was cut off gets its commands again
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

/** Compares what the service says now with what it promised. */
async function checkPromises(): Promise<DurabilityReport> {
  for (const reporter of reporters) reporter.stop();
  const until = performance.now() + 30_000;
  while (!reporters.every((reporter) => reporter.isDrained()) && performance.now() < until) await pause(5);
  const broken: string[] = [];
  const caller = await RawConnection.open(ports.port);
  for (const id of promised) {
    let { status } = await commandOf(caller, id);
    while (!FINAL_STATUSES.has(status) && status !== 'lost' && performance.now() < until) {
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
    // One report was made when the device was registered; each counter after it is a version of its own.
    const right = shown.state.counter === sent && shown.state_version === sent + 1 && acknowledged === sent;
    if (right) continue;
    const seen = `counter ${shown.state.counter}, version ${shown.state_version}`;
    broken.push(`device ${deviceId}: sent ${sent}, acknowledged ${acknowledged}, ${seen}`);
  }
  caller.close();
  return { commands: promised.size, counters, broken };
}

interface LoadMessage {
  cast?: LoadSetup;
  connect?: Ports;
  ask?: number;
  recover?: Ports;
  reckon?: true;
}

process.on('message', (message: LoadMessage) => {
  const answer = async (): Promise<object> => {
    if (message.cast) setUp(message.cast);
    if (message.connect) await connect(message.connect);
    if (message.ask) await startCommands(message.ask);
    if (message.recover) return { recovered: await recover(message.recover) };
    if (message.reckon) return { reckoning: await checkPromises() };
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
