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

/**
 * The service without MQTT on a new database: PostgreSQL if it is installed, because it starts faster, otherwise
 * PGlite.
 */
export async function startHttpServiceOnDatabase(
  options: HttpServiceOptions = {},
  wrap: (store: Store) => Store = (store) => store,
): Promise<HttpService> {
  const serverUrl = inject('postgresUrl');
  const { backend, close } = serverUrl ? await openPostgres(serverUrl) : await openPglite();
  const service = await startHttpServiceOn(wrap(backend.store), options, async (userId, { tenantId, role }) => {
    const text = 'update users set tenant_id = coalesce($2, tenant_id), role = coalesce($3, role) where id = $1';
    await backend.database.write({ text, values: [userId, tenantId ?? null, role ?? null] });
  });
  return {
    ...service,
    async close() {
      await service.close();
      await close();
    },
  };
}

/** A tenant with a home, a room and a user of every role, and devices that send messages without a broker. */
export interface TestTenant {
  tenantId: Uuid;
  userId: Uuid;
  homeId: Uuid;
  roomId: Uuid;
  /** Tokens of the owner and of a member with each lesser role. */
  tokens: Record<'owner' | 'admin' | 'user' | 'viewer', string>;
  /** Under `/v1`, as the owner unless `sent` overrides it. */
  call(method: string, path: string, body?: unknown, sent?: CallOptions): Promise<CallResult>;
  /** Registers a device in the home and returns the response. */
  register(more?: JsonObject): Promise<{ device_id: Uuid; device_secret: string }>;
  /** Opens a session of the device with a granted subscription; pending commands are written. */
  connect(deviceId: Uuid): Promise<string>;
  disconnect(deviceId: Uuid): void;
  report(deviceId: Uuid, state: JsonObject): Promise<void>;
  /** Sends the device's acknowledgement of a command. */
  acknowledge(
    deviceId: Uuid,
    commandId: Uuid,
    status: AckStatus,
    more?: { progress?: number; result?: Json; error?: Json },
  ): Promise<void>;
  /** Missing members of the event are filled in. */
  send(deviceId: Uuid, event: JsonObject): Promise<void>;
}

export async function makeTestTenant(service: HttpService): Promise<TestTenant> {
  const { token, tenantId, userId } = await service.owner();
  const tokens = {
    owner: token,
    admin: await service.member(tenantId, 'admin'),
    user: await service.member(tenantId, 'user'),
    viewer: await service.member(tenantId, 'viewer'),
  };
  const call: TestTenant['call'] = (method, path, body, sent) =>
    service.call(method, `/v1${path}`, { token, ...(body !== undefined && { body }), ...sent });
  const createRecord = async (path: string, body: JsonObject): Promise<Uuid> => {
    const response = await call('POST', path, body);
    if (response.status !== 201) throw new Error(JSON.stringify(response.body));
    return response.body.id;
  };
  const homeId = await createRecord('/homes', { home_name: 'Lakeside' });
  const roomId = await createRecord(`/homes/${homeId}/rooms`, { name: 'Kitchen' });
  const sequences = new Map<Uuid, number>();
  const { sessions, actors, watches } = service.runtime;

  const send: TestTenant['send'] = async (deviceId, event) => {
    const sequenceNumber = (sequences.get(deviceId) ?? 0) + 1;
    sequences.set(deviceId, sequenceNumber);
    const at = service.clock.now();
    const device = await actors.read<DeviceContext>({ kind: 'device', id: deviceId });
    const keyVersion = device?.snapshot.context.fixed.keyVersion ?? 0;
    const completeEvent = {
      at,
      header: { sequenceNumber, messageId: v7(), keyVersion },
      watches: watches.forDevice(deviceId),
      ...event,
    };
    const reply = await actors.send({ kind: 'device', id: deviceId }, completeEvent as unknown as DeviceEvent);
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
      const sessionId = `${deviceId}.${service.clock.now()}.${v7()}`;
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
