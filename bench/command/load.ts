import { WebSocket } from 'ws';
import type { Uuid } from '../../src/domain/values.ts';
import { deviceState } from '../support/device-state.ts';
import { type DeviceIdentity, RawDevice } from '../support/raw-device.ts';
import { RawConnection } from '../support/raw-http.ts';

/*
 * The load process: callers on keep-alive HTTP connections, and the devices they command, which answer immediately.
 * Both are in one process, so that one clock measures the time between them. Controlled by messages.
 */

export interface Target {
  httpPort: number;
  /** Absent for the floor: a request then ends with its response. */
  mqttPort?: number;
  token: string;
  devices: DeviceIdentity[];
  connections: number;
}

export interface ClosedLoop {
  /** Concurrent requests, at most one per connection. */
  inFlight: number;
  warmMs: number;
  measureMs: number;
}
export interface ClosedResult {
  perSecond: number;
  /** All requests, including those outside the measured time. */
  total: number;
  /** Milliseconds from the first byte of the request to the last PUBACK. */
  latencies: number[];
}

export interface OpenLoop {
  what: 'command' | 'state';
  perSecond: number;
  milliseconds: number;
}
export interface OpenResult {
  /** Milliseconds from the due time. */
  latencies: number[];
  sent: number;
  /** Delay of the load's own sending, in milliseconds. */
  lag: number[];
}

let target: Target;
let callers: RawConnection[] = [];
let devices: RawDevice[] = [];
/** Callbacks by request id: command delivered to its device, and final acknowledgement committed. */
const onDelivered = new Map<string, () => void>();
const onCommitted = new Map<string, () => void>();

// The service passes the request id to the device, which associates a command with its request.
let requests = 0;
const nextRequestId = (): Uuid => {
  requests += 1;
  return `00000000-0000-7000-8000-${requests.toString(16).padStart(12, '0')}`;
};

async function openDevices(options: Target): Promise<void> {
  target = options;
  const { mqttPort } = target;
  if (mqttPort === undefined) return;
  devices = target.devices.map((identity) => new RawDevice(identity));
  for (const device of devices) {
    device.onClose = () => fail(new Error('the service closed a session of a device'));
    device.onCommand = ({ commandId, requestId, params }) => {
      onDelivered.get(requestId)?.();
      const ack = { command_id: commandId, state: { brightness: params.level ?? null }, status: 'succeeded' };
      device.publish('cmd_ack', ack, () => onCommitted.get(requestId)?.());
    };
    await device.open(mqttPort, { commands: true });
  }
}

/** Reconnects for each run: a server may close idle connections in between. */
async function connectCallers(): Promise<void> {
  for (const caller of callers) caller.close();
  callers = await Promise.all(Array.from({ length: target.connections }, () => RawConnection.open(target.httpPort)));
}

/** Sends one command and resolves when the response has arrived. */
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

/** Calls `send` with the number and due time of each request, at a constant rate independent of earlier ones. */
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

/** Waits for outstanding results. */
async function waitUntil(done: () => boolean): Promise<void> {
  const until = performance.now() + 10_000;
  while (!done() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function runOpenCommands(options: OpenLoop): Promise<OpenResult> {
  const latencies: number[] = [];
  const lag: number[] = [];
  const free = [...callers];
  const queue: (() => void)[] = [];
  const sent = await paced(options, (n, due) => {
    const requestId = nextRequestId();
    onDelivered.set(requestId, () => {
      latencies.push(performance.now() - due);
      onDelivered.delete(requestId);
    });
    const go = () => {
      // Round robin: a server closes idle connections.
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

async function runOpenStates(options: OpenLoop): Promise<OpenResult> {
  const total = Math.floor((options.perSecond * options.milliseconds) / 1000);
  const signed = Array.from({ length: total }, (_, n) => {
    const device = devices[n % devices.length] as RawDevice;
    return { device, message: device.compose('state', { state: deviceState(n, device.identity.deviceId) }), n };
  });
  // Signed beforehand, so that signing does not compete for the processor.
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
  const sent = await paced(options, (n, at) => {
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
