import { v7 } from 'uuid';
import { inject } from 'vitest';
import type { AckStatus } from '../../src/domain/command.ts';
import type { Json, JsonObject, Uuid } from '../../src/domain/values.ts';
import type { DeviceContext, DeviceEvent } from '../../src/machines/device-types.ts';
import type { Store } from '../../src/store/contract.ts';
import {
  type CallOptions,
  type CallResult,
  type HttpService,
  type HttpServiceOptions,
  startHttpServiceOn,
} from './http-service.ts';
import { openPglite, openPostgres } from './store.ts';

/** The service without MQTT on a new database: PostgreSQL where it is installed, for it starts sooner, else PGlite. */
export async function startHttpServiceOnDatabase(
  options: HttpServiceOptions = {},
  around: (store: Store) => Store = (store) => store,
): Promise<HttpService> {
  const serverUrl = inject('postgresUrl');
  const { backend, close } = serverUrl ? await openPostgres(serverUrl) : await openPglite();
  const house = await startHttpServiceOn(around(backend.store), options, async (userId, { tenantId, role }) => {
    const text = 'update users set tenant_id = coalesce($2, tenant_id), role = coalesce($3, role) where id = $1';
    await backend.database.write({ text, values: [userId, tenantId ?? null, role ?? null] });
  });
  return {
    ...house,
    async close() {
      await house.close();
      await close();
    },
  };
}

/** Somebody's tenant with a home, a room and people of every role, and devices that speak without a broker. */
export interface TestTenant {
  tenantId: Uuid;
  userId: Uuid;
  homeId: Uuid;
  roomId: Uuid;
  /** A token of the owner, and of a member with each lesser role. */
  tokens: Record<'owner' | 'admin' | 'user' | 'viewer', string>;
  /** Under `/v1`, as the owner unless `sent` says otherwise. */
  call(method: string, path: string, body?: unknown, sent?: CallOptions): Promise<CallResult>;
  /** Registers a device in the home and answers what the registration answered. */
  register(more?: JsonObject): Promise<{ device_id: Uuid; device_secret: string }>;
  /** A session of the device with a granted subscription; pending commands are written. */
  connect(deviceId: Uuid): Promise<string>;
  disconnect(deviceId: Uuid): void;
  report(deviceId: Uuid, state: JsonObject): Promise<void>;
  /** The device's word on a command. */
  acknowledge(
    deviceId: Uuid,
    commandId: Uuid,
    status: AckStatus,
    more?: { result?: Json; error?: Json },
  ): Promise<void>;
  /** What is left out of an event is filled in. */
  send(deviceId: Uuid, event: JsonObject): Promise<void>;
}

export async function makeTestTenant(house: HttpService): Promise<TestTenant> {
  const { token, tenantId, userId } = await house.owner();
  const tokens = {
    owner: token,
    admin: await house.member(tenantId, 'admin'),
    user: await house.member(tenantId, 'user'),
    viewer: await house.member(tenantId, 'viewer'),
  };
  const call: TestTenant['call'] = (method, path, body, sent) =>
    house.call(method, `/v1${path}`, { token, ...(body !== undefined && { body }), ...sent });
  const created = async (path: string, body: JsonObject): Promise<Uuid> => {
    const made = await call('POST', path, body);
    if (made.status !== 201) throw new Error(JSON.stringify(made.body));
    return made.body.id;
  };
  const homeId = await created('/homes', { home_name: 'Lakeside' });
  const roomId = await created(`/homes/${homeId}/rooms`, { name: 'Kitchen' });
  const sequences = new Map<Uuid, number>();
  const { sessions, actors, watches } = house.runtime;

  const send: TestTenant['send'] = async (deviceId, event) => {
    const sequenceNumber = (sequences.get(deviceId) ?? 0) + 1;
    sequences.set(deviceId, sequenceNumber);
    const at = house.clock.now();
    const device = await actors.read<DeviceContext>({ kind: 'device', id: deviceId });
    const keyVersion = device?.snapshot.context.keyVersion ?? 0;
    const whole = {
      at,
      mark: { sequenceNumber, messageId: v7(), keyVersion },
      watches: watches.forDevice(deviceId),
      ...event,
    };
    const reply = await actors.send({ kind: 'device', id: deviceId }, whole as unknown as DeviceEvent);
    sessions.recordActivity(deviceId, { at });
    await reply.messagesDelivered;
  };

  return {
    ...{ tenantId, userId, homeId, roomId, tokens, call, send },
    async register(more = {}) {
      const answer = await call('POST', '/device/register', { device_type: 'smart_light', home_id: homeId, ...more });
      if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
      return answer.body;
    },
    async connect(deviceId) {
      const sessionId = `${deviceId}.${house.clock.now()}.${v7()}`;
      sessions.open({ deviceId, tenantId, sessionId, keyVersion: 1, subscribed: false });
      await sessions.markSubscribed(deviceId, sessionId);
      return sessionId;
    },
    disconnect(deviceId) {
      const session = sessions.get(deviceId);
      if (session) sessions.close(deviceId, session.sessionId);
    },
    report: (deviceId, state) => send(deviceId, { type: 'state.reported', state, full: false }),
    acknowledge: (deviceId, commandId, status, more = {}) =>
      send(deviceId, { type: 'ack.reported', commandId, known: true, ack: { status, ...more } }),
  };
}
