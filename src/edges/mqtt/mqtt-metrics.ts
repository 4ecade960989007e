import type { Metrics } from '../shared/metrics.ts';
import type { MqttMeter } from './mqtt-meter.ts';

/** The edge's counters as metrics. */
export function makeMqttMeter({ labelledCounter }: Pick<Metrics, 'labelledCounter'>): MqttMeter {
  const undone = labelledCounter('mqtt_writes_undone', 'Commands marked as written of which no byte left', 'channel');
  return {
    connected: labelledCounter('mqtt_connections', 'MQTT connections by the way they came in', 'transport'),
    closed: labelledCounter('mqtt_closed', 'MQTT connections that ended, by reason', 'reason'),
    signIn: labelledCounter('mqtt_sign_ins', 'CONNECTs by what became of them', 'outcome'),
    received: labelledCounter('mqtt_messages', 'Messages of devices whose envelope was right, by channel', 'channel'),
    refused: labelledCounter('mqtt_refusals', 'Refused messages of devices, by code', 'code'),
    written: labelledCounter('mqtt_writes', 'Messages written to devices, by type', 'type'),
    undone: () => undone('cmd'),
  };
}
