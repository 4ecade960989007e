import type { MessageRefusalCode } from '../../domain/refusals.ts';
import type { Channel, CloudMessageType } from '../../protocol/topics.ts';
import type { MqttTransport } from '../shared/mqtt-client.ts';

/** Why a connection ended; a closed list, because it is a metric label. */
export type CloseReason =
  | 'peer'
  | 'protocol'
  | 'oversized'
  | 'slow'
  | 'silent'
  | 'crowded'
  | 'refused'
  | 'forbidden'
  | 'refusals'
  | 'takeover'
  | 'expired'
  | 'ended'
  | 'suspended'
  | 'credential'
  | 'failed'
  | 'moved'
  | 'stopping';

/** Counters of the edge, implemented by the metrics. Labels come from closed lists, never an id. */
export interface MqttMeter {
  connected(transport: MqttTransport): void;
  closed(reason: CloseReason): void;
  signIn(outcome: 'device' | 'user' | 'refused' | 'without_tls' | 'unavailable'): void;
  /** A device message with a valid envelope. */
  received(channel: Channel): void;
  refused(code: MessageRefusalCode): void;
  written(type: CloudMessageType): void;
  /** A command that was marked as written but not sent. */
  undone(): void;
}

export const noopMqttMeter: MqttMeter = {
  connected() {},
  closed() {},
  signIn() {},
  received() {},
  refused() {},
  written() {},
  undone() {},
};
