import { z } from 'zod';
import { type ConnectionEvent, connectionEventNames, MAX_CONNECTION_EVENTS } from '../../domain/connection-event.ts';
import { iso } from '../../domain/iso-time.ts';
import { done, messageRefusalCodes } from '../../domain/refusals.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { deviceChannels } from '../../protocol/topics.ts';
import { idOf, isoTime } from '../inputs.ts';
import { operation } from '../operation.ts';
import { connectionHistories } from './connection-history.ts';
import { findDevice } from './device-view.ts';

const message = z.object({
  at: isoTime,
  channel: z.enum(deviceChannels),
  sequence_number: z.int().nullable().meta({ description: 'Null if the envelope was malformed' }),
  outcome: z.enum(['accepted', 'repeated', 'refused']).meta({
    description: 'A `repeated` message had been accepted before and changed nothing',
  }),
  code: z.enum(messageRefusalCodes).nullable().meta({ description: 'Why it was refused' }),
});

const connection = z.object({
  at: isoTime,
  event: z.enum(connectionEventNames).meta({
    description: '`firmware` follows a `hello` that named another version than the one before',
  }),
  firmware: z.string().nullable().meta({ description: 'The version that a `hello` named' }),
  previous_firmware: z.string().nullable(),
});

const activity = z
  .object({
    device_id: uuid,
    since: isoTime.meta({
      description: 'Start of the log, when this process started; earlier messages are not included',
    }),
    state_at: isoTime.nullable().meta({ description: 'When the state was last reported' }),
    properties: z
      .record(z.string(), isoTime)
      .meta({ description: 'When each property of the state was last reported, if it was since then' }),
    connections: z.array(connection).meta({
      description: `The last ${MAX_CONNECTION_EVENTS} changes of its connection, newest first; kept over restarts`,
    }),
    messages: z.array(message).meta({ description: 'The last 20 messages, newest first, without their content' }),
    refused: z.int().meta({ description: 'Number of refused messages since registration; updated every few seconds' }),
  })
  .meta({ id: 'DeviceActivity' });

const AT = '2026-03-01T12:00:00.000Z';

export const getDeviceActivity = operation({
  name: 'getDeviceActivity',
  summary: 'Show the recent activity of a device: when each property was reported, the latest messages, and refusals',
  input: z.strictObject({ id: idOf('device') }),
  output: z.object({ activity }),
  role: 'user',
  scope: 'read:devices',
  restrictedKeys: 'devices',
  changes: false,
  refuses: ['NOT_FOUND'],
  example: {
    output: {
      activity: {
        device_id: '0195d9a2-7f00-7000-8000-000000000001',
        since: '2026-03-01T08:00:00.000Z',
        state_at: AT,
        properties: { brightness: AT },
        connections: [{ at: AT, event: 'online', firmware: null, previous_firmware: null }],
        messages: [{ at: AT, channel: 'state', sequence_number: 12, outcome: 'accepted', code: null }],
        refused: 0,
      },
    },
  },
  needs: ['actors', 'deviceActivity', 'sessions', 'store'],
  async run(services, { input, caller }) {
    const found = await findDevice(services, caller, input.id);
    if (!found.ok) return found;
    const { id, tenantId } = found.value.snapshot.context.fixed;
    const { reported, state } = found.value.snapshot.context.live;
    const { deviceActivity, store } = services;
    const refused = (await store.devices.lastSeen([id])).get(id)?.refusals ?? 0;
    const connections = (await connectionHistories(services, [id])).get(id) ?? [];
    const ref = { tenantId, deviceId: id };
    const times = deviceActivity.propertyTimes(ref);
    const named = Object.keys(state).flatMap((name) => {
      const at = times.get(name);
      return at === undefined ? [] : [[name, iso(at)]];
    });
    const messages = deviceActivity.messages(ref).map(({ at, channel, sequence, refusal, duplicate }) => ({
      ...{ at: iso(at), channel, sequence_number: sequence },
      outcome: refusal !== null ? ('refused' as const) : duplicate ? ('repeated' as const) : ('accepted' as const),
      code: refusal,
    }));
    const body = {
      device_id: id,
      since: iso(deviceActivity.since),
      state_at: reported.at === null ? null : iso(reported.at),
      properties: Object.fromEntries(named),
      connections: connections.map(connectionBody),
      messages,
      refused,
    };
    return done({ body: { activity: body } });
  },
});

const connectionBody = (one: ConnectionEvent): z.infer<typeof connection> => ({
  at: iso(one.at),
  event: one.event,
  firmware: 'firmware' in one ? one.firmware : null,
  previous_firmware: 'previous' in one ? one.previous : null,
});
