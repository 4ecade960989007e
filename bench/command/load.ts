import { WebSocket } from 'ws';
import type { Uuid } from '../../src/domain/values.ts';
import { deviceState } from '../support/device-state.ts';
import { type DeviceIdentity, RawDevice } from '../support/raw-device.ts';
import { RawConnection } from '../support/raw-http.ts';

/*
 * The load, in a process of its own: callers on kept HTTP connections and the devices they command, which answer at once.
 * Both sit in one process so that one clock measures the way from one to the other. It does what is asked in messages.
 */

export interface Target {
  httpPort: number;
  /** Absent for the floor: a request is over when it is answered. */
  mqttPort?: number;
  token: string;
  devices: DeviceIdentity[];
  connections: number;
}

export interface ClosedLoop {
  /** Requests at a time, at most one on each connection. */
  inFlight: number;
  warmMs: number;
  measureMs: number;
}
export interface ClosedResult {
  perSecond: number;
  /** All that were done, before and after the measured time too. */
  total: number;
  /** From the first byte of the request to the last PUBACK, milliseconds. */
  latencies: number[];
}

export interface OpenLoop {
  what: 'command' | 'state';
  perSecond: number;
  milliseconds: number;
}
export interface OpenResult {
  /** From when it was due, milliseconds. */
  latencies: number[];
  sent: number;
  /** How late the load itself was at sending, milliseconds. */
  lag: number[];
}

let target: Target;
let callers: RawConnection[] = [];
let devices: RawDevice[] = [];
/** What happens when the command of this request has reached its device, and when its final word is committed. */
const onDelivered = new Map<string, () => void>();
const onCommitted = new Map<string, () => void>();

// A request id that the service echoes to the device says which request a command belongs to.
let requests = 0;
const nextRequestId = (): Uuid => {
  requests += 1;
  return `00000000-0000-7000-8000-${requests.toString(16).padStart(12, '0')}`;
};

async function openDevices(asked: Target): Promise<void> {
  target = asked;
  const { mqttPort } = target;
  if (mqttPort === undefined) return;
  devices = target.devices.map((identity) => new RawDevice(identity));
  for (const device of devices) {
    device.onClose = () => fail(new Error('the service closed a session of a device'));
    device.onCommand = ({ commandId, requestId, params }) => {
      onDelivered.get(requestId)?.();
      const ack = { command_id: commandId, status: 'succeeded', state: { brightness: params.level ?? null } };
      device.publish('cmd_ack', ack, () => onCommitted.get(requestId)?.());
    };
    await device.open(mqttPort, { commands: true });
  }
}

/** Anew for each run: in between a server may close what is idle. */
async function connectCallers(): Promise<void> {
  for (const caller of callers) caller.close();
  callers = await Promise.all(Array.from({ length: target.connections }, () => RawConnection.open(target.httpPort)));
}

/** Sends one command and resolves when it is answered. */
async function command(caller: RawConnection, requestId: Uuid, n: number): Promise<void> {
  const { deviceId } = target.devices[n % target.devices.length] as DeviceIdentity;
  const headers = `Authorization: Bearer ${target.token}\r\nX-Request-ID: ${requestId}\r\n`;
  const body = `{"action":"set_brightness","params":{"level":${n % 101}}}`;
  const { status, body: answer } = await caller.post(`/v1/device/${deviceId}/command`, headers, body);
  if (status !== 202) throw new Error(`${status} ${answer}`);
}

async function runClosedLoop({ inFlight, warmMs, measureMs }: ClosedLoop): Promise<ClosedResult> {
  const begin = performance.now() + warmMs;
  const end = begin + measureMs;
  const latencies: number[] = [];
  let n = 0;
  const drive = async (caller: RawConnection) => {
    while (performance.now() < end) {
      const requestId = nextRequestId();
      const started = performance.now();
      const committed =
        devices.length === 0 ? null : new Promise<void>((resolve) => onCommitted.set(requestId, resolve));
      n += 1;
      await command(caller, requestId, n);
      await committed;
      onCommitted.delete(requestId);
      const now = performance.now();
      if (now >= begin && now < end) latencies.push(now - started);
    }
  };
  await Promise.all(callers.slice(0, inFlight).map(drive));
  return { perSecond: latencies.length / (measureMs / 1000), total: n, latencies };
}

/** Calls `send` with the number and the due time of each, at a constant rate whatever becomes of the ones before. */
async function paced({ perSecond, milliseconds }: OpenLoop, send: (n: number, due: number) => void): Promise<number> {
  const started = performance.now();
  const total = Math.floor((perSecond * milliseconds) / 1000);
  let sent = 0;
  while (sent < total) {
    const now = performance.now();
    for (let due = started + (sent * 1000) / perSecond; sent < total && due <= now; ) {
      send(sent, due);
      sent += 1;
      due = started + (sent * 1000) / perSecond;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return total;
}

/** Waits for what is still on its way. */
async function waitUntil(done: () => boolean): Promise<void> {
  const until = performance.now() + 10_000;
  while (!done() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function runOpenCommands(asked: OpenLoop): Promise<OpenResult> {
  const latencies: number[] = [];
  const lag: number[] = [];
  const free = [...callers];
  const queue: (() => void)[] = [];
  const sent = await paced(asked, (n, due) => {
    const requestId = nextRequestId();
    onDelivered.set(requestId, () => {
      latencies.push(performance.now() - due);
      onDelivered.delete(requestId);
    });
    const go = () => {
      // In turn: a server closes one that never asks anything.
      const caller = free.shift() as RawConnection;
      lag.push(performance.now() - due);
      command(caller, requestId, n)
        .then(() => {
          free.push(caller);
          queue.shift()?.();
        })
        .catch(fail);
    };
    if (free.length > 0) go();
    else queue.push(go);
  });
  await waitUntil(() => latencies.length === sent);
  return { latencies, sent, lag };
}

async function runOpenStates(asked: OpenLoop): Promise<OpenResult> {
  const total = Math.floor((asked.perSecond * asked.milliseconds) / 1000);
  const signed = Array.from({ length: total }, (_, n) => {
    const device = devices[n % devices.length] as RawDevice;
    return { device, message: device.compose('state', { state: deviceState(n, device.identity.deviceId) }), n };
  });
  // Signed beforehand, so that signing does not compete.
  const latencies: number[] = [];
  const lag: number[] = [];
  const due = new Map<number, number>();
  const socket = await openStateStream();
  socket.on('message', (data) => {
    const { type, state } = JSON.parse(String(data)) as { type: string; state: { counter: number } };
    const since = type === 'state_update' ? due.get(state.counter) : undefined;
    if (since === undefined) return;
    due.delete(state.counter);
    latencies.push(performance.now() - since);
  });
  const sent = await paced(asked, (n, at) => {
    const { device, message } = signed[n] as (typeof signed)[number];
    due.set(n, at);
    lag.push(performance.now() - at);
    device.send(message, () => {});
  });
  await waitUntil(() => latencies.length === sent);
  socket.close();
  return { latencies, sent, lag };
}

function openStateStream(): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${target.httpPort}/ws/state?token=${target.token}`);
    socket.once('open', () => resolve(socket));
    socket.once('error', reject);
  });
}

function fail(error: Error): void {
  console.error(error);
  process.exit(1);
}

process.on('message', (message: { open?: Target; closed?: ClosedLoop; paced?: OpenLoop }) => {
  const answer = async (): Promise<object> => {
    if (message.open) return { opened: await openDevices(message.open).then(() => true) };
    await connectCallers();
    if (message.closed) return { result: await runClosedLoop(message.closed) };
    if (message.paced) {
      return { result: await (message.paced.what === 'command' ? runOpenCommands : runOpenStates)(message.paced) };
    }
    return {};
  };
  answer().then((value) => process.send?.(value), fail);
});
process.on('disconnect', () => process.exit(0));
