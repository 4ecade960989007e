import { deepStrictEqual } from 'node:assert';
import type { GatewayFacts } from '../../src/domain/gateway.ts';
import type { Capability, Manifest } from '../../src/domain/manifest.ts';
import { DEFAULT_POLICY, rulesSince } from '../../src/domain/policy.ts';
import type { JsonObject, Principal } from '../../src/domain/values.ts';
import { commandDefinition } from '../../src/machines/command-record.ts';
import type { CommandContext, CommandEvent } from '../../src/machines/command-types.ts';
import { deviceDefinition } from '../../src/machines/device-record.ts';
import type { DeviceContext, DeviceEvent } from '../../src/machines/device-types.ts';
import type { DeviceKeyRow, Output } from '../../src/machines/outputs.ts';
import { Driven } from './machine-driver.ts';

export const uuid = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;

export const TENANT = uuid(1);
export const DEVICE = uuid(2);
export const COMMAND = uuid(3);
export const HOME = uuid(4);
export const ROOM = uuid(5);
export const T0 = 1_700_000_000_000;
export const HOUR = 3_600_000;

export const requester: Principal = { kind: 'user', id: uuid(10), via: 'rest' };
export const other: Principal = { kind: 'user', id: uuid(11), via: 'rest' };
export const device: Principal = { kind: 'device', id: DEVICE };

type Of<Type extends DeviceEvent['type']> = Extract<DeviceEvent, { type: Type }>;
type On<Type extends CommandEvent['type']> = Extract<CommandEvent, { type: Type }>;

export const key = (keyVersion: number, more: Partial<DeviceKeyRow> = {}): DeviceKeyRow => ({
  keyVersion,
  signingAlg: 'hmac-sha256',
  sealedSecret: `sealed ${keyVersion}`,
  publicKey: null,
  createdAt: T0,
  ...more,
});

export const capability = (action: string, more: Partial<Capability> = {}): Capability => ({
  id: 1,
  action,
  description: '',
  safetyClass: 'NORMAL',
  paramSchema: { type: 'object' },
  supportsDryRun: true,
  ...more,
});

export const manifest = (version: number, more: Partial<Manifest> = {}): Manifest => ({
  deviceId: DEVICE,
  tenantId: TENANT,
  category: 'light',
  version,
  own: false,
  capabilities: [capability('turn_on')],
  ...more,
});

export const register = (more: Partial<Of<'register'>> = {}): Of<'register'> => ({
  type: 'register',
  at: T0,
  by: requester,
  device: {
    id: DEVICE,
    tenantId: TENANT,
    deviceType: 'smart_light',
    category: 'light',
    name: null,
    homeId: HOME,
    roomId: ROOM,
    metadata: { colour: 'white' },
    signingAlg: 'hmac-sha256',
  },
  key: key(1),
  manifest: manifest(1),
  ...more,
});

export const header = (sequenceNumber: number, messageId = `m${sequenceNumber}`, keyVersion = 1) => ({
  sequenceNumber,
  messageId,
  keyVersion,
});

export const report = (sequence: number, state: JsonObject, more: Partial<Of<'state.reported'>> = {}) =>
  ({
    type: 'state.reported',
    at: T0 + 1_000,
    by: device,
    header: header(sequence),
    state,
    full: false,
    watches: [],
    ...more,
  }) satisfies Of<'state.reported'>;

export const ack = (sequence: number, more: Partial<Of<'ack.reported'>> = {}) =>
  ({
    type: 'ack.reported',
    at: T0 + 1_000,
    by: device,
    header: header(sequence),
    commandId: COMMAND,
    known: true,
    ack: { status: 'succeeded' },
    watches: [],
    ...more,
  }) satisfies Of<'ack.reported'>;

export const blankDevice = () => new Driven<DeviceContext, DeviceEvent>(deviceDefinition);
export const blankCommand = () => new Driven<CommandContext, CommandEvent>(commandDefinition);

/** A registered device that has not sent a message. */
export function registered(more: Partial<Of<'register'>> = {}): Driven<DeviceContext, DeviceEvent> {
  const driven = blankDevice();
  driven.send(register(more));
  return driven;
}

/** Online, with sequence number 1 used and `{on: true}` reported. */
export function online(): Driven<DeviceContext, DeviceEvent> {
  const driven = registered();
  driven.send(report(1, { on: true }));
  return driven;
}

/** The refusal of an event, which changes nothing else. */
export function refusalOf(driven: Driven<DeviceContext, DeviceEvent>, event: DeviceEvent): { code: string } {
  const step = driven.send(event);
  deepStrictEqual([step.same, step.timers, typesOf(step.outputs)], [true, [], ['refused']]);
  return (step.outputs[0] as { refusal: { code: string } }).refusal;
}

export const dimmer = capability('set_brightness', {
  paramSchema: { type: 'object', properties: { level: { type: 'integer', minimum: 0, maximum: 100 } } },
  expectedState: { brightness: { $param: 'level' } },
});
export const unlocker = capability('unlock', { safetyClass: 'CRITICAL' });
export const blinker = capability('blink');

export const facts = (more: Partial<GatewayFacts> = {}): GatewayFacts => ({
  tenant: { suspended: false },
  flags: { maintenance_mode: false, commands_disabled: false },
  device: { revoked: false },
  manifest: { capabilities: [dimmer, unlocker, blinker], version: 7 },
  action: 'set_brightness',
  params: { level: 70 },
  dryRun: false,
  confirmed: false,
  ...more,
});

export const PREVIEW = { current: {}, expected: null, changes: null };

interface RequestOptions {
  action: string;
  params: JsonObject;
  ttlS: number;
  timeoutS: number;
  facts: Partial<GatewayFacts>;
  session: string | null;
  at: number;
}

export function request(options: Partial<RequestOptions> = {}): On<'request'> {
  const { action = 'set_brightness', params = { level: 70 }, ttlS, timeoutS, session = null, at = T0 } = options;
  return {
    type: 'request',
    at,
    by: requester,
    command: {
      id: COMMAND,
      tenantId: TENANT,
      deviceId: DEVICE,
      action,
      params,
      messageId: uuid(20),
      origin: { requestId: 'request-1', plan: null },
      requestedBy: requester,
      ...(ttlS !== undefined && { ttlS }),
      ...(timeoutS !== undefined && { timeoutS }),
    },
    facts: facts(options.facts),
    session: session === null ? null : { sessionId: session },
    confirmation: { tokenHash: 'hash of the token', ttlS: 300, preview: PREVIEW },
  };
}

export const confirm = (more: Partial<On<'confirm'>> = {}): On<'confirm'> => ({
  type: 'confirm',
  at: T0 + 10_000,
  by: requester,
  tokenHash: 'hash of the token',
  rules: rulesSince(DEFAULT_POLICY, [], T0),
  facts: facts(),
  session: { sessionId: 's1' },
  effect: { preview: PREVIEW, isNamed: null },
  ...more,
});

export const ackReceived = (status: On<'ack.received'>['ack']['status'], at: number, more: object = {}) =>
  ({ type: 'ack.received', at, by: device, deviceId: DEVICE, ack: { status, ...more } }) satisfies On<'ack.received'>;

export const observed = (matches: boolean, at: number, state: JsonObject = { brightness: matches ? 70 : 20 }) =>
  ({
    type: 'state.observed',
    at,
    by: device,
    deviceId: DEVICE,
    observed: state,
    matches,
  }) satisfies On<'state.observed'>;

export const ready = (sessionId: string, at: number) =>
  ({ type: 'session.ready', at, sessionId }) satisfies On<'session.ready'>;

/** A command after its request. */
export function requestedCommand(more: Partial<RequestOptions> = {}): Driven<CommandContext, CommandEvent> {
  const driven = blankCommand();
  driven.send(request(more));
  return driven;
}

export const typesOf = (outputs: readonly Output[]): string[] => outputs.map((output) => output.type);

export const ofType = <Type extends Output['type']>(outputs: readonly Output[], type: Type) =>
  outputs.filter((output): output is Extract<Output, { type: Type }> => output.type === type);
