/** How MQTT clients are connected. */
export const mqttTransports = ['tcp', 'tls', 'websocket'] as const;
export type MqttTransport = (typeof mqttTransports)[number];

/** The client's end of an MQTT connection. */
export interface MqttClient {
  address: string;
  transport: MqttTransport;
  /** Whether the client uses TLS, which ends in this process or in a trusted proxy that reports it. */
  encrypted: boolean;
  /** The certificate (DER) whose key the client proved to have in the TLS handshake. Nothing else about it is verified. */
  certificate?: Buffer;
}
