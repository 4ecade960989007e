import type { CloseReason } from './mqtt-meter.ts';

/** Handles the packets of a signed-in peer. */
export interface PacketHandler {
  /**
   * Asked at the first byte of each packet. 0 lets it through; else in how many milliseconds to ask again, `Infinity`
   * until `Connection.proceed`.
   */
  admit(type: number): number;
  /** A PUBLISH has come whole: the flags of its fixed header, and where what follows that stands. */
  onPublish(flags: number, bytes: Buffer, from: number, to: number): void;
}

/**
 * One peer's connection as the session layer uses it: sign-in, flow control, acknowledgements, commands. `Wire` implements it over
 * a stream: a socket, or a simulated one in tests.
 */
export interface Connection {
  /** The client's address, for the rate of failed sign-ins. */
  readonly address: string;
  /** Set before the connection ends for a reason of the service; null when the peer ended it. */
  reason: CloseReason | null;
  /** Nothing more is read or written, or soon will not be. */
  readonly closing: boolean;
  /** The CONNECT was accepted: packets are passed to `gate` as it admits them. */
  open(gate: PacketHandler): void;
  /** Asks the gate again for the packet that was held. */
  resumeReading(): void;
  /** Writes at once, or answers false: then no byte of the frame has left or ever will. */
  send(frame: Buffer): boolean;
  /** Ends the connection after what was written; nothing more is read. */
  close(reason: CloseReason): void;
  /** Ends the connection now. */
  terminate(reason: CloseReason): void;
  once(event: 'close', listener: () => void): unknown;
}
