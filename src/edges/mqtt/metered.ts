import type { Metrics } from '../shared/metrics.ts';
import type { MqttMeter } from './meter.ts';

/** The edge's counters as metrics. */
export function metered({ tally }: Pick<Metrics, 'tally'>): MqttMeter {
  const undone = tally('mqtt_writes_undone', 'Commands marked as written of which no byte left', 'channel');
  return {
    connected: tally('mqtt_connections', 'MQTT connections by the way they came in', 'transport'),
    closed: tally('mqtt_closed', 'MQTT connections that ended, by reason', 'reason'),
    signIn: tally('mqtt_sign_ins', 'CONNECTs by what became of them', 'outcome'),
    received: tally('mqtt_messages', 'Messages of devices whose envelope was right, by channel', 'channel'),
    refused: tally('mqtt_refusals', 'Refused messages of devices, by code', 'code'),
    written: tally('mqtt_writes', 'Messages written to devices, by type', 'type'),
    undone: () => undone('cmd'),
  };
}
