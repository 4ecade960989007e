import type { Uuid } from '../../domain/values.ts';
import { encodePublish } from './packets.ts';
import { tenantTopicPrefix } from './topic-filters.ts';
import type { MqttUserSession, MqttUserSessions } from './user-session.ts';

/**
 * Publishes a device's message to the users of its tenant that are subscribed to its topic. Aedes routes no messages: each
 * session is written to directly, and one that reads too slowly is terminated, so that no subscriber can delay a device.
 */
export function publishToUsers(
  users: MqttUserSessions,
  { tenantId, topic, payload, qos }: { tenantId: Uuid; topic: string; payload: Uint8Array | string; qos: number },
): void {
  if (!users.hasTenant(tenantId)) return;
  const levels = topic.slice(tenantTopicPrefix(tenantId).length).split('/');
  let qos0Frame: Buffer | null = null;
  for (const session of users.ofTenant(tenantId)) {
    const subscribedQos = session.qosFor(levels);
    if (subscribedQos === null) continue;
    if (subscribedQos === 1 && qos > 0) {
      const packetId = session.nextPacketId();
      sendTo(session, levels[0], encodePublish(topic, payload, packetId));
    } else {
      qos0Frame ??= encodePublish(topic, payload, null);
      sendTo(session, levels[0], qos0Frame);
    }
  }
}

function sendTo({ reach, connection }: MqttUserSession, deviceId: Uuid | undefined, frame: Buffer): void {
  if (reach === null) connection.send(frame);
  else reach.deliver(deviceId ?? null, () => connection.send(frame));
}
