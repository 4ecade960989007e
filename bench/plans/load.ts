import { WebSocket } from 'ws';
import type { Uuid } from '../../src/domain/values.ts';
import { type DeviceIdentity, RawDevice } from '../support/raw-device.ts';
import { RawConnection } from '../support/raw-http.ts';

/*
 * The load process: devices that answer immediately, and callers that send the same commands in two ways: as steps of
 * plans, one plan after another, or individually, with as many in flight as a plan has steps.
 */

export interface Target {
  httpPort: number;
  mqttPort: number;
  token: string;
  devices: DeviceIdentity[];
}

export interface Loop {
  /** `requests`: the commands are only answered, by the HTTP floor at `port`. */
  way: 'plans' | 'commands' | 'requests';
  port?: number;
  warmMs: number;
  measureMs: number;
}
export interface LoopResult {
  /** Steps or commands whose end the caller has seen. */
  perSecond: number;
  total: number;
}

let target: Target;
let devices: RawDevice[] = [];
let plans: WebSocket;
/** Callbacks by request id or plan id, called when the command or plan has ended. */
const onEnded = new Map<string, () => void>();
/** Plans that ended before the response to their request arrived. */
const endedEarly = new Set<string>();

let requests = 0;
const nextRequestId = (): Uuid => {
  requests += 1;
  return `00000000-0000-7000-8000-${requests.toString(16).padStart(12, '0')}`;
};

async function open(options: Target): Promise<void> {
  target = options;
  devices = target.devices.map((identity) => new RawDevice(identity));
  for (const device of devices) {
    device.onClose = () => fail(new Error('the service closed a session of a device'));
    device.onCommand = ({ commandId, requestId, params }) => {
      const ack = { command_id: commandId, state: { brightness: params.level ?? null }, status: 'succeeded' };
      device.publish('cmd_ack', ack, () => onEnded.get(requestId)?.());
    };
    await device.open(target.mqttPort, { commands: true });
  }
  plans = new WebSocket(`ws://127.0.0.1:${target.httpPort}/ws/state?token=${target.token}&events=plan`);
  plans.on('message', (data) => {
    const { plan_id, step_id, status } = JSON.parse(String(data)) as Record<string, string>;
    if (step_id !== undefined || plan_id === undefined) return;
    const onEnd = onEnded.get(plan_id);
    if (status === 'succeeded') {
      if (onEnd === undefined) endedEarly.add(plan_id);
      else onEnd();
    }
    if (status !== 'succeeded' && status !== 'pending' && status !== 'running') fail(new Error(`a plan is ${status}`));
  });
  await new Promise((resolve, reject) => {
    plans.once('open', resolve);
    plans.once('error', reject);
  });
}

const headers = (): string => `Authorization: Bearer ${target.token}\r\n`;

/** Resolves at the 202 response. */
async function request(caller: RawConnection, n: number, requestId = nextRequestId()): Promise<void> {
  const { deviceId } = target.devices[n % target.devices.length] as DeviceIdentity;
  const body = `{"action":"set_brightness","params":{"level":${n % 101}}}`;
  const path = `/v1/device/${deviceId}/command`;
  const { status, body: answer } = await caller.post(path, `${headers()}X-Request-ID: ${requestId}\r\n`, body);
  if (status !== 202) throw new Error(`${status} ${answer}`);
}

/** Resolves when the device's acknowledgement is committed. */
async function command(caller: RawConnection, n: number): Promise<void> {
  const requestId = nextRequestId();
  const ended = new Promise<void>((resolve) => onEnded.set(requestId, resolve));
  await request(caller, n, requestId);
  await ended;
  onEnded.delete(requestId);
}

/** Resolves when the plan's end is reported. */
async function plan(caller: RawConnection, n: number): Promise<void> {
  const steps = target.devices.map(({ deviceId }, at) => ({
    ...{ id: `s${at}`, device_id: deviceId, action: 'set_brightness', params: { level: (n + at) % 101 } },
  }));
  const { status, body } = await caller.post('/v1/plans', headers(), JSON.stringify({ steps }));
  if (status !== 202) throw new Error(`${status} ${body}`);
  const { id } = (JSON.parse(body) as { plan: { id: Uuid } }).plan;
  if (endedEarly.delete(id)) return;
  await new Promise<void>((resolve) => onEnded.set(id, resolve));
  onEnded.delete(id);
}

const senders = { plans: plan, commands: command, requests: request };

async function run({ way, port = target.httpPort, warmMs, measureMs }: Loop): Promise<LoopResult> {
  const each = way === 'plans' ? target.devices.length : 1;
  const callers = await Promise.all(
    Array.from({ length: way === 'plans' ? 1 : target.devices.length }, () => RawConnection.open(port)),
  );
  const begin = performance.now() + warmMs;
  const end = begin + measureMs;
  let [total, measured] = [0, 0];
  const drive = async (caller: RawConnection) => {
    while (performance.now() < end) {
      total += each;
      await senders[way](caller, total);
      const now = performance.now();
      if (now >= begin && now < end) measured += each;
    }
  };
  await Promise.all(callers.map(drive));
  for (const caller of callers) caller.close();
  return { perSecond: measured / (measureMs / 1000), total };
}

function fail(error: Error): void {
  console.error(error);
  process.exit(1);
}

process.on('message', (message: { open?: Target; loop?: Loop }) => {
  if (message.open) open(message.open).then(() => process.send?.({ opened: true }), fail);
  if (message.loop) run(message.loop).then((result) => process.send?.({ result }), fail);
});
process.on('disconnect', () => process.exit(0));
