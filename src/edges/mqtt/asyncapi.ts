import { toJsonSchema } from '../../domain/message-schema.ts';
import { messageRefusals } from '../../domain/refusals.ts';
import type { JsonObject } from '../../domain/values.ts';
import { HEARTBEAT_S, PROTOCOL_ROOT, PROTOCOL_VERSION, SESSION_SKEW_MS } from '../../protocol/constants.ts';
import { composeMessage } from '../../protocol/envelope.ts';
import { envelopeSchema } from '../../protocol/envelope-schema.ts';
import { cloudPayloads, devicePayloads } from '../../protocol/payloads.ts';
import { signingKey } from '../../protocol/signature.ts';
import {
  type Channel,
  type CloudMessageType,
  COMMAND_CHANNEL,
  cloudMessageTypes,
  type DeviceChannel,
  deviceChannels,
} from '../../protocol/topics.ts';
import { type Addresses, type AsyncApiPart, ref } from '../shared/asyncapi-builder.ts';
import { defaultMqttLimits } from './mqtt-limits.ts';
import { channelAccess } from './user-session.ts';

type MessageType = DeviceChannel | CloudMessageType;

interface MessageDocs {
  /** The operation's name. Unlike the channel it is unique: `cmd` carries three message types. */
  operation: string;
  title: string;
  summary: string;
  example: JsonObject;
}

const EXAMPLE_AT = 1_767_225_600_000; // 2026-01-01T00:00:00Z
const COMMAND_ID = '0195d9a2-7f00-7000-8000-000000000003';
const MESSAGE_ID = '0195d9a2-7f00-7000-8000-000000000006';

const messageDocs: Record<MessageType, MessageDocs> = {
  hello: {
    operation: 'receiveHello',
    title: 'Hello',
    summary:
      'The first message of a session, answered with hello_ack. It is bound to its new session and may have any ' +
      'sequence number, so that a device that lost its counter receives the number to continue from.',
    example: { protocol: PROTOCOL_VERSION, firmware: '1.4.2', device_type: 'smart_light' },
  },
  heartbeat: {
    operation: 'receiveHeartbeat',
    title: 'Heartbeat',
    summary: `Sent every ${HEARTBEAT_S} seconds; a device that misses three is marked offline. The PUBACK confirms receipt.`,
    example: { uptime_s: 3_600, rssi: -61, battery: 87, free_heap: 143_360 },
  },
  state: {
    operation: 'receiveState',
    title: 'Reported state',
    summary: 'Merged into the twin by JSON Merge Patch, or replaces it; at most 32 KiB after the merge.',
    example: { state: { on: true, brightness: 40 } },
  },
  cmd_ack: {
    operation: 'receiveCommandAck',
    title: 'Command acknowledgement',
    summary:
      'Progress of a command: accepted, optionally in_progress, then succeeded or failed. The PUBACK is sent when twin ' +
      'and command are both committed. An acknowledgement of a command in a final status is recorded in the journal and has no effect.',
    example: { command_id: COMMAND_ID, status: 'succeeded', state: { brightness: 40 } },
  },
  cmd: {
    operation: 'sendCommand',
    title: 'Command',
    summary:
      'Sent to the session whose subscription to cmd is granted; a repeat has the same message_id. A NORMAL command may ' +
      'be sent again in a later session, a CRITICAL one is sent once: remember the ids of the last 32 commands.',
    example: {
      command_id: COMMAND_ID,
      action: 'set_brightness',
      params: { level: 40 },
      issued_at: EXAMPLE_AT,
      expires_at: EXAMPLE_AT + 60_000,
    },
  },
  hello_ack: {
    operation: 'sendHelloAck',
    title: 'Reply to hello',
    summary: 'Sent once both the hello is accepted and the subscription to cmd is granted, in either order.',
    example: {
      server_time: EXAMPLE_AT,
      last_sequence: 17,
      heartbeat_s: HEARTBEAT_S,
      key_version: 1,
      cloud_public_keys: ['rQLPViPhI9Ma9_ddhEWLdTuqNzAqua1MQSmsZk5AIEw'],
    },
  },
  error: {
    operation: 'sendError',
    title: 'Message refused',
    summary:
      'A refused message is acknowledged, dropped and counted; if its signature is valid, this error is sent. After 20 ' +
      'refusals in a minute the session is closed. Up to 8 errors are kept until the subscription to cmd is granted.',
    example: { code: 'SEQUENCE_REUSED', message_id: MESSAGE_ID },
  },
};

// Not a secret: the examples are signed, so that client developers can verify their signature code.
const EXAMPLE_SECRET = 'this-is-an-example-and-no-secret-of-anyones';
const TENANT_ID = '0195d9a2-7f00-7000-8000-000000000004';
const DEVICE_ID = '0195d9a2-7f00-7000-8000-000000000001';

const isFromDevice = (type: MessageType): type is DeviceChannel => (deviceChannels as readonly string[]).includes(type);
const channelOf = (type: MessageType): string => (isFromDevice(type) ? type : COMMAND_CHANNEL);
const schemaName = (type: MessageType): string =>
  `${type.replace(/(^|_)([a-z])/g, (_, _bar, initial: string) => initial.toUpperCase())}`;

const exampleOf = (type: MessageType): JsonObject =>
  JSON.parse(
    composeMessage({
      ...{ deviceId: DEVICE_ID, tenantId: TENANT_ID, clientId: `${DEVICE_ID}.${EXAMPLE_AT}.QgRGsRIsuQPsFA_p` },
      messageId: isFromDevice(type) ? MESSAGE_ID : '0195d9a2-7f00-7000-8000-000000000007',
      requestId: isFromDevice(type) ? '' : MESSAGE_ID,
      ...{ sequence: isFromDevice(type) ? 18 : 1, timestamp: EXAMPLE_AT, nonce: 'CYROqfAbNJQrwNIQ', type },
      ...{ payload: messageDocs[type].example, keyVersion: 1, key: signingKey('hmac-sha256', EXAMPLE_SECRET) },
    }),
  ) as JsonObject;

function messageOf(type: MessageType): JsonObject {
  const { title, summary } = messageDocs[type];
  const typedMembers: JsonObject = {
    message_type: { type: 'string', const: type },
    payload: ref.schema(`${schemaName(type)}Payload`),
  };
  return {
    name: type,
    title,
    summary,
    payload: { allOf: [ref.schema('Envelope'), { type: 'object', properties: typedMembers }] },
    correlationId: {
      description:
        isFromDevice(type) && type !== 'cmd_ack'
          ? 'The reply carries this id as `request_id`'
          : 'The id of the message or command that this message refers to',
      location: `$message.payload#/${correlation[type]}`,
    },
    examples: [{ name: type, summary: `Signed with the secret ${EXAMPLE_SECRET}`, payload: exampleOf(type) }],
  };
}

const correlation: Record<MessageType, string> = {
  hello: 'message_id',
  heartbeat: 'message_id',
  state: 'message_id',
  cmd_ack: 'payload/command_id',
  cmd: 'payload/command_id',
  hello_ack: 'request_id',
  error: 'payload/message_id',
};

const parameters: JsonObject = {
  tenantId: { description: "The device's tenant", location: '$message.payload#/tenant_id' },
  deviceId: { description: 'The device; users may also subscribe with `+`', location: '$message.payload#/device_id' },
};

function channel(name: string, types: readonly MessageType[], description: string): JsonObject {
  return {
    address: `${PROTOCOL_ROOT}/{tenantId}/device/{deviceId}/${name}`,
    title: name,
    description,
    parameters,
    servers: MQTT_SERVERS.map(ref.server),
    messages: Object.fromEntries(types.map((type) => [type, ref.message(type)])),
    tags: [ref.tag(TAG)],
  };
}

const TAG = 'MQTT';
const MQTT_SERVERS = ['mqtt', 'mqttOverWebSocket'];
const QOS = { mqtt: { qos: 1, retain: false, bindingVersion: '0.2.0' } };

/** Message types that the service sends on `cmd` in reply. */
const replies: Readonly<Record<DeviceChannel, readonly CloudMessageType[]>> = {
  hello: ['hello_ack', 'error'],
  heartbeat: ['error'],
  state: ['error'],
  cmd_ack: ['error'],
};

function operation(type: MessageType): JsonObject {
  const { title, summary } = messageDocs[type];
  const replyTypes = isFromDevice(type) ? replies[type] : [];
  const ackReply: JsonObject = {
    channel: ref.channel('cmd_ack'),
    messages: [ref.messageOf('cmd_ack', 'cmd_ack')],
  };
  return {
    action: isFromDevice(type) ? 'receive' : 'send',
    channel: ref.channel(channelOf(type)),
    title,
    summary,
    messages: [ref.messageOf(channelOf(type), type)],
    bindings: QOS,
    security: [ref.security('deviceSession')],
    tags: [ref.tag(TAG)],
    ...(replyTypes.length > 0 && {
      reply: {
        channel: ref.channel(COMMAND_CHANNEL),
        messages: replyTypes.map((answer) => ref.messageOf(COMMAND_CHANNEL, answer)),
      },
    }),
    ...(type === 'cmd' && { reply: ackReply }),
  };
}

function relaySummary(channel: Channel): string {
  const sent = channel === COMMAND_CHANNEL ? 'sent to' : 'accepted from';
  const hidden =
    channel === COMMAND_CHANNEL
      ? ' Parameters that the service adds for the device, such as the signed URL of a firmware, are left out; ' +
        'payload_hash and signature are those of the message to the device.'
      : '';
  return `Sent to users of the tenant that are subscribed to the topic, as it was ${sent} the device. Requires the scope ${channelAccess[channel].scope}.${hidden}`;
}

/** Messages from and to a tenant's devices are relayed to its users. */
const relay = (name: string, types: readonly MessageType[]): JsonObject => ({
  action: 'send',
  channel: ref.channel(name),
  title: `Relay ${name} to users`,
  summary: relaySummary(name as Channel),
  messages: types.map((type) => ref.messageOf(name, type)),
  bindings: QOS,
  security: [ref.security('userSession')],
  tags: [ref.tag(TAG)],
});

const channelDescriptions: Record<DeviceChannel, string> = {
  hello: 'Device to cloud: the first message of a session.',
  heartbeat: 'Device to cloud: the device is online, with its health data.',
  state: 'Device to cloud: reported state, the source of the twin.',
  cmd_ack: 'Device to cloud: progress and outcome of a command.',
};

const BROKER = `MQTT 3.1.1; a version 5 CONNECT gets "unacceptable protocol version". Clean sessions only, no will, QoS 0 or 1, no retained messages, packets up to ${defaultMqttLimits.maxPacketBytes} bytes. A PUBACK means that the effects of the message are durable. Publishing to another topic than the device's channels, with QoS 2 or retained closes the connection without an acknowledgement; a forbidden SUBSCRIBE gets 0x80.`;

const DEVICE_SESSION = `A device signs in (layer 1) with client identifier \`<device_id>.<unix ms>.<nonce>\` (nonce: 12 random bytes in base64url, a new one for each connection), user name \`tenant_id\`, and as password its signature over the eleven canonical fields joined by \`|\`, with \`message_type\` \`session\`, that \`client_id\`, its timestamp and nonce, empty \`message_id\` and \`request_id\`, \`sequence_number\` 0 and the \`payload_hash\` of \`{}\`. It is valid once, within ${SESSION_SKEW_MS / 1000} s of its timestamp. A session lasts at most 24 h; a new session closes the previous one. A wrong password gets CONNACK 5 "not authorized" without a reason. Every message (layer 2) is signed as well, by the key that opened the session. On the TLS port a device may instead sign in with an X.509 certificate of a registered CA, without a password: its messages are then the payload alone, or an object with \`message_id\`, \`sequence_number\` and \`payload\`, on these topics or on \`proto/self/<channel>\` (docs/devices.md, "Certificates").`;

const USER_SESSION =
  'A user signs in with user name `jwt` and a token or an API key as password, and may subscribe below ' +
  '`proto/{own tenant}/device/…`, wildcards included, but not publish. Requires the role `user` and, if the credential ' +
  'has scopes, `read:devices`; `cmd` and `cmd_ack` require `read:commands` too: a filter for these alone gets 0x80, and ' +
  'a wildcard does not select them. The connection ends when the credential expires or is revoked.';

function servers({ httpUrl, mqttUrl }: Addresses): JsonObject {
  const mqtt = new URL(mqttUrl);
  const http = new URL(httpUrl);
  const common: JsonObject = {
    protocolVersion: '3.1.1',
    security: [ref.security('deviceSession'), ref.security('userSession')],
    tags: [ref.tag(TAG)],
    bindings: { mqtt: { clientId: '<device_id>.<unix ms>.<nonce>', cleanSession: true, bindingVersion: '0.2.0' } },
  };
  return {
    mqtt: { host: mqtt.host, protocol: mqtt.protocol.slice(0, -1), description: BROKER, ...common },
    mqttOverWebSocket: {
      host: http.host,
      pathname: '/mqtt',
      protocol: http.protocol === 'https:' ? 'wss' : 'ws',
      description: `The same broker on the HTTP port (subprotocol \`mqtt\`). ${BROKER}`,
      ...common,
    },
  };
}

/** The MQTT part of `/asyncapi.json`. */
export function mqttAsyncApi(): AsyncApiPart {
  const types = [...deviceChannels, ...cloudMessageTypes] as const;
  const payloads: JsonObject = {};
  for (const type of deviceChannels) payloads[`${schemaName(type)}Payload`] = toJsonSchema(devicePayloads[type]);
  for (const type of cloudMessageTypes) payloads[`${schemaName(type)}Payload`] = toJsonSchema(cloudPayloads[type]);
  (payloads.ErrorPayload as { properties: JsonObject }).properties.code = ref.schema('MessageRefusalCode');
  return {
    tag: { name: TAG, description: 'Devices, and users subscribed to their messages' },
    servers,
    channels: {
      ...Object.fromEntries(deviceChannels.map((name) => [name, channel(name, [name], channelDescriptions[name])])),
      [COMMAND_CHANNEL]: channel(
        COMMAND_CHANNEL,
        cloudMessageTypes,
        "Cloud to device: commands, and replies to the device's messages. Pending commands are sent when the " +
          'subscription is granted.',
      ),
    },
    operations: {
      ...Object.fromEntries(types.map((type) => [messageDocs[type].operation, operation(type)])),
      ...Object.fromEntries(deviceChannels.map((name) => [`relay${schemaName(name)}`, relay(name, [name])])),
      relayCmd: relay(COMMAND_CHANNEL, cloudMessageTypes),
    },
    messages: Object.fromEntries(types.map((type) => [type, messageOf(type)])),
    schemas: {
      Envelope: envelopeSchema,
      ...payloads,
      MessageRefusalCode: {
        type: 'string',
        description: Object.entries(messageRefusals)
          .map(([code, meaning]) => `- \`${code}\`: ${meaning}.`)
          .join('\n'),
        examples: Object.keys(messageRefusals),
      },
    },
    securitySchemes: {
      deviceSession: { type: 'userPassword', description: DEVICE_SESSION },
      userSession: { type: 'userPassword', description: USER_SESSION },
    },
  };
}
