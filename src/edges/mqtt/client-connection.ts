import type { CloseReason } from './mqtt-meter.ts';
import type { PublishPacket } from './packets.ts';

/** Handles the packets of a signed-in peer. */
export interface PacketHandler {
  /**
   * Called at the first byte of each packet. 0 admits the packet; otherwise the milliseconds after which to call again,
   * or `Infinity` to wait for `ClientConnection.resumeReading`.
   */
  admit(type: number): number;
  /** A complete PUBLISH; null if it is malformed. */
  onPublish(packet: PublishPacket | null): void;
}

/**
 * One peer's connection as the session layer uses it: sign-in, flow control, acknowledgements, commands.
 * `MqttConnection` implements it over a stream: a socket, or a simulated one in tests.
 */
export interface ClientConnection {
  /** The client's address; failed sign-ins are counted per address. */
  readonly address: string;
  /** Whether the client uses TLS: a password that is a secret may need it. */
  readonly encrypted: boolean;
  /** As `MqttClient.certificate`; null without one. */
  readonly certificate: Buffer | null;
  /** Set before the service ends the connection; null if the peer ended it. */
  reason: CloseReason | null;
  /** True once the connection is closed or closing: no further reads, no new writes. */
  readonly closing: boolean;
  /** Called when the CONNECT is accepted: from now on packets go to `handler`, as it admits them. */
  open(handler: PacketHandler): void;
  /** Offers the buffered packet to the handler again. */
  resumeReading(): void;
  /** Writes the frame now. False: no byte of it was sent or will be sent. */
  send(frame: Buffer): boolean;
  /** Closes after pending writes are flushed; reads nothing more. */
  close(reason: CloseReason): void;
  /** Closes immediately, without flushing. */
  terminate(reason: CloseReason): void;
  once(event: 'close', listener: () => void): unknown;
}
