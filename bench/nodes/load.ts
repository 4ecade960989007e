import { deviceState } from '../support/device-state.ts';
import type { Population } from '../support/population.ts';
import { RawDevice } from '../support/raw-device.ts';
import { RawConnection, type RawResponse } from '../support/raw-http.ts';

/*
 * The load process of one group of nodes: devices and callers of many tenants. Each of them is connected to the node that
 * the benchmark chooses for it. Controlled by messages.
 */

export interface LoadSetup {
  tenants: Population[];
}

/** The clients of one tenant, by the ports of the nodes that they are connected to. */
export interface TenantClients {
  /** Index of the tenant in `LoadSetup`. */
  tenant: number;
  /** One for each device of the tenant, from the first one on. */
  mqttPorts: number[];
  /** One for each connection of the tenant's callers. */
  httpPorts: number[];
}

/** An open loop over all connected devices, at a rate that does not depend on the answers. */
export interface PacedLoad {
  what: 'state' | 'command';
  perSecond: number;
  milliseconds: number;
}

export interface PacedResult {
  sent: number;
  /** Time until the last acknowledgement. */
  milliseconds: number;
}

/** A command to the first device of each connected tenant, repeated from now on until it is accepted. */
export interface TakeoverLoad {
  /** Epoch milliseconds. */
  killedAt: number;
}

/** Milliseconds from the kill, by tenant. */
export interface TakeoverTimes {
  accepted: number;
  /** Until the device's final acknowledgement is committed. */
  done: number;
}

interface Caller {
  ports: number[];
  free: RawConnection[];
  queue: ((connection: RawConnection) => void)[];
}

interface Client {
  token: string;
  device: RawDevice;
  port: number;
  caller: Caller;
}

const DRAIN_MS = 30_000;
const OPENED_TOGETHER = 50;
const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

let tenants: { token: string; devices: RawDevice[] }[] = [];
let clients: Client[] = [];
let callers: Caller[] = [];
/** Callbacks by request id, called when the final acknowledgement of a command is committed. */
const onCommitted = new Map<string, () => void>();
let requests = 0;

function nextRequestId(): string {
  requests += 1;
  return `00000000-0000-7000-8000-${requests.toString(16).padStart(12, '0')}`;
}

function setUp(setup: LoadSetup): void {
  tenants = setup.tenants.map(({ token, devices }) => ({
    token,
    devices: devices.map((identity) => new RawDevice(identity)),
  }));
}

async function connect(chosen: readonly TenantClients[]): Promise<void> {
  await disconnect();
  for (const { tenant, mqttPorts, httpPorts } of chosen) {
    const { token, devices } = tenants[tenant] as (typeof tenants)[number];
    const caller: Caller = { ports: httpPorts, free: [], queue: [] };
    callers.push(caller);
    for (const [at, port] of mqttPorts.entries())
      clients.push({ token, caller, port, device: devices[at] as RawDevice });
  }
  const waiting = [...clients];
  const worker = async () => {
    for (let client = waiting.shift(); client !== undefined; client = waiting.shift()) await connectDevice(client);
  };
  await Promise.all(Array.from({ length: OPENED_TOGETHER }, worker));
}

/** Again for each load, because a server closes idle connections. */
async function connectCallers(): Promise<void> {
  for (const caller of callers) {
    for (const connection of caller.free) connection.close();
    caller.free = await Promise.all(caller.ports.map((port) => RawConnection.open(port)));
  }
}

async function connectDevice({ device, port }: Client): Promise<void> {
  device.onClose = () => fail(new Error('a session of a device was closed'));
  device.onCommand = ({ commandId, requestId, params }) => {
    const ack = { command_id: commandId, state: { brightness: params.level ?? null }, status: 'succeeded' };
    device.publish('cmd_ack', ack, () => onCommitted.get(requestId)?.());
  };
  await device.open(port, { commands: true });
}

async function disconnect(): Promise<void> {
  for (const { device } of clients) device.close();
  for (const { free } of callers) for (const connection of free) connection.close();
  clients = [];
  callers = [];
  onCommitted.clear();
}

/** Calls `send` with the number of each message when it is due. */
async function paced({ perSecond, milliseconds }: PacedLoad, send: (n: number) => void): Promise<number> {
  const total = Math.floor((perSecond * milliseconds) / 1000);
  const started = performance.now();
  for (let sent = 0; sent < total; ) {
    const due = Math.min(total, Math.floor(((performance.now() - started) * perSecond) / 1000));
    for (; sent < due; sent += 1) send(sent);
    await pause(1);
  }
  return total;
}

async function runPaced(load: PacedLoad): Promise<PacedResult> {
  // Signed beforehand, so that signing does not compete for the processor.
  const prepared = load.what === 'state' ? prepareStates(load) : null;
  if (load.what === 'command') await connectCallers();
  const started = performance.now();
  let done = 0;
  const sent = await paced(load, (n) => {
    const client = clients[n % clients.length] as Client;
    const onDone = () => {
      done += 1;
    };
    if (prepared !== null) client.device.send(prepared[n] as (typeof prepared)[number], onDone);
    else void sendCommand(client, n, onDone).catch(fail);
  });
  const until = performance.now() + DRAIN_MS;
  while (done < sent && performance.now() < until) await pause(1);
  if (done < sent) throw new Error(`${sent - done} of ${sent} messages were not acknowledged`);
  return { sent, milliseconds: performance.now() - started };
}

const prepareStates = ({ perSecond, milliseconds }: PacedLoad) =>
  Array.from({ length: Math.floor((perSecond * milliseconds) / 1000) }, (_, n) => {
    const { device } = clients[n % clients.length] as Client;
    return device.compose('state', { state: deviceState(n, device.identity.deviceId) });
  });

async function sendCommand(client: Client, n: number, onDone: () => void): Promise<void> {
  const requestId = nextRequestId();
  onCommitted.set(requestId, () => {
    onCommitted.delete(requestId);
    onDone();
  });
  const { free, queue } = client.caller;
  const connection = free.shift() ?? (await new Promise<RawConnection>((resolve) => queue.push(resolve)));
  const { status, body } = await post(connection, client, { n, requestId });
  if (status !== 202) throw new Error(`${status} ${body}`);
  const next = queue.shift();
  if (next === undefined) free.push(connection);
  else next(connection);
}

function post(
  connection: RawConnection,
  { token, device }: Client,
  { n, requestId }: { n: number; requestId: string },
): Promise<RawResponse> {
  const headers = `Authorization: Bearer ${token}\r\nX-Request-ID: ${requestId}\r\n`;
  const body = `{"action":"set_brightness","params":{"level":${n % 101}}}`;
  return connection.post(`/v1/device/${device.identity.deviceId}/command`, headers, body);
}

/** The first device of each tenant connects again whenever it is disconnected, and a caller repeats its command. */
async function measureTakeover({ killedAt }: TakeoverLoad): Promise<TakeoverTimes[]> {
  const times = await Promise.all(
    clients.map(async (client): Promise<TakeoverTimes> => {
      const requestId = nextRequestId();
      const done = new Promise<number>((resolve) => onCommitted.set(requestId, () => resolve(Date.now() - killedAt)));
      const accepted = await untilAccepted(client, requestId);
      return { accepted: accepted - killedAt, done: await done };
    }),
  );
  await disconnect();
  return times;
}

/** Devices of a node that is about to be killed, and callers at another one. */
async function prepareTakeover(): Promise<void> {
  await connectCallers();
  for (const client of clients) {
    const reconnect = async (): Promise<void> => {
      client.device.onClose = null;
      try {
        await connectDevice(client);
        client.device.onClose = reconnect;
      } catch {
        await pause(10);
        await reconnect();
      }
    };
    client.device.onClose = () => void reconnect();
  }
}

async function untilAccepted(client: Client, requestId: string): Promise<number> {
  let [connection] = client.caller.free as [RawConnection];
  for (let n = 0; ; n += 1) {
    try {
      const { status } = await post(connection, client, { n, requestId });
      if (status === 202) return Date.now();
      await pause(5);
    } catch {
      await pause(5);
      connection = await RawConnection.open(client.caller.ports[0] as number);
    }
  }
}

function fail(error: Error): void {
  console.error(error);
  process.exit(1);
}

interface LoadMessage {
  setUp?: LoadSetup;
  connect?: TenantClients[];
  disconnect?: true;
  paced?: PacedLoad;
  prepareTakeover?: true;
  takeover?: TakeoverLoad;
}

process.on('message', (message: LoadMessage) => {
  const answer = async (): Promise<object> => {
    if (message.paced) return { result: await runPaced(message.paced) };
    if (message.takeover) return { times: await measureTakeover(message.takeover) };
    if (message.setUp) setUp(message.setUp);
    if (message.connect) await connect(message.connect);
    if (message.disconnect) await disconnect();
    if (message.prepareTakeover) await prepareTakeover();
    return { done: true };
  };
  answer().then((value) => process.send?.(value), fail);
});
process.on('disconnect', () => process.exit(0));
