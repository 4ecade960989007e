import type { Metrics } from '../shared/metrics.ts';
import type { MqttMeter } from './mqtt-meter.ts';

/** Implements the edge's meter with Prometheus counters. */
export function makeMqttMeter(metrics: Pick<Metrics, 'labelledCounter'>): MqttMeter {
  const undone = metrics.labelledCounter('mqtt_writes_undone', 'Commands marked as written but not sent', 'channel');
  return {
    connected: metrics.labelledCounter('mqtt_connections', 'MQTT connections accepted, by transport', 'transport'),
    closed: metrics.labelledCounter('mqtt_closed', 'MQTT connections closed, by reason', 'reason'),
    signIn: metrics.labelledCounter('mqtt_sign_ins', 'CONNECT packets, by outcome of the sign-in', 'outcome'),
    received: metrics.labelledCounter('mqtt_messages', 'Device messages with a valid envelope, by channel', 'channel'),
    refused: metrics.labelledCounter('mqtt_refusals', 'Refused device messages, by code', 'code'),
    written: metrics.labelledCounter('mqtt_writes', 'Messages sent to devices, by type', 'type'),
    undone: () => undone('cmd'),
  };
}
