import { sameValue } from '../actors/draft.ts';
import type { Runtime } from '../actors/runtime.ts';
import type { Json } from '../domain/values.ts';
import type { MqttEdge } from '../edges/mqtt/edge.ts';
import type { Metrics } from '../edges/shared/metrics.ts';
import type { StateSockets } from '../edges/websocket/state-sockets.ts';
import type { CommandContext } from '../machines/command-types.ts';

/** What is read when somebody looks at the metrics. */
export function measure(
  metrics: Metrics,
  runtime: Runtime,
  { mqtt, sockets }: { mqtt(): MqttEdge | null; sockets: StateSockets },
): void {
  const { actors, outbox, sessions, timers } = runtime;
  metrics.gauge('actors_live', 'Actors in memory', () => actors.stats().live);
  metrics.gauge('events_waiting', 'Events in all mailboxes', () => actors.stats().waiting);
  metrics.gauge('mailbox_deepest', 'Events in the fullest mailbox', () => actors.stats().deepest);
  metrics.gauge('outbox_age_seconds', 'Age of the oldest output that is not delivered', () => outbox.age() / 1000);
  metrics.gauge('timers_firing', 'Timers that are due and not answered', () => timers.due);
  metrics.gauge('device_sessions', 'Devices that are signed in', () => sessions.count());
  metrics.gauge('mqtt_connections_open', 'Open MQTT connections', () => mqtt()?.connections() ?? 0);
  metrics.gauge('websocket_connections_open', 'Open WebSocket connections', () => sockets.counts().connections);
  metrics.gauge(
    'websocket_bytes_waiting',
    'Bytes that WebSocket clients did not read yet',
    () => sockets.counts().buffered,
  );
  actors.onTransition(({ ref, snapshot }, _event, from) => {
    if (ref.kind !== 'command' || sameValue(lifecycleOf(from), lifecycleOf(snapshot.value))) return;
    metrics.command((snapshot.context as CommandContext).status);
  });
}

const lifecycleOf = (value: Json): Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value.lifecycle ?? null) : value;
