import { Socket } from 'node:net';
import { connect, type IClientOptions, type MqttClient } from 'mqtt';
import type { Milliseconds } from '../domain/values.ts';
import type { SessionCredentials } from '../protocol/session-token.ts';

/** How long to wait before the next try: a random part of a span that doubles from `minMs` to `maxMs`. */
export interface Backoff {
  minMs: Milliseconds;
  maxMs: Milliseconds;
  /** From 0 to below 1. */
  random: () => number;
}

export type TlsOptions = Pick<IClientOptions, 'ca' | 'cert' | 'key' | 'rejectUnauthorized' | 'servername'>;

export interface LinkOptions {
  mqttUrl: string;
  commandTopic: string;
  /** Asked anew for every connection: a session token counts once. */
  credentials: () => SessionCredentials;
  backoff: Backoff;
  keepaliveS: number;
  connectTimeoutMs: Milliseconds;
  tls?: TlsOptions;
}

/** One connection, from its granted `cmd` subscription until it ends. */
export interface LinkSession {
  readonly clientId: string;
  /** `acknowledged` is called when the broker has acknowledged the message, and never for QoS 0. */
  publish(topic: string, text: string, qos: 0 | 1, acknowledged?: () => void): void;
}

export interface LinkListener {
  /** The `cmd` subscription is granted. */
  up(session: LinkSession): void;
  /** May come before `up`: the service writes pending commands as it grants the subscription. */
  message(bytes: Buffer, clientId: string): void;
  /** The connection, or the attempt at one, is over; the next begins after `retryInMs`. */
  down(reason: string, retryInMs: Milliseconds): void;
}

/** A session that held this long ends a series of failures. */
const STABLE_MS = 10_000;
const DISCONNECT_TIMEOUT_MS = 1_000;

/** Keeps one MQTT connection up: a new client, with new credentials, for every try. */
export class Link {
  readonly #options: LinkOptions;
  readonly #listener: LinkListener;
  #client: MqttClient | null = null;
  #retry: NodeJS.Timeout | undefined;
  #failures = 0;
  #upAt: number | null = null;
  #reason = '';
  #closed = false;

  constructor(options: LinkOptions, listener: LinkListener) {
    this.#options = options;
    this.#listener = listener;
  }

  open(): void {
    if (this.#closed || this.#client !== null) return;
    clearTimeout(this.#retry);
    const { mqttUrl, commandTopic, keepaliveS, connectTimeoutMs, credentials, tls } = this.#options;
    const { clientId, username, password } = credentials();
    const client = connect(mqttUrl, {
      ...tls,
      clientId,
      username,
      password,
      clean: true,
      protocolVersion: 4,
      keepalive: keepaliveS,
      connectTimeout: connectTimeoutMs,
      reconnectPeriod: 0, // it would come back with the same token
      queueQoSZero: false,
    });
    this.#client = client;
    this.#reason = 'connection closed';
    this.#upAt = null;
    client.on('error', (error) => {
      this.#reason = error.message || String((error as NodeJS.ErrnoException).code);
    });
    client.on('close', () => this.#ended(client));
    client.on('message', (_topic, bytes) => {
      if (this.#client === client) this.#listener.message(bytes, clientId);
    });
    client.on('connect', () => {
      // A PUBACK of ours just before a message would hold that up for 40 ms: Nagle's algorithm waits for a delayed ACK.
      if (client.stream instanceof Socket) client.stream.setNoDelay(true);
      client.subscribe(commandTopic, { qos: 1 }, (error, granted) => {
        if (this.#client !== client) return;
        if (error !== null || granted?.[0] === undefined || granted[0].qos > 2) {
          this.drop('the cmd subscription was refused');
          return;
        }
        this.#upAt = Date.now();
        this.#listener.up({ clientId, publish: publisher(client) });
      });
    });
  }

  /** Ends the present connection; the next one follows as after any other end. */
  drop(reason: string): void {
    const client = this.#client;
    if (client === null) return;
    client.end(true);
    this.#ended(client, reason);
  }

  /** Says goodbye and stays down. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    // With a message unacknowledged it would wait for that first.
    if (client.connected && Object.keys(client.outgoing).length === 0) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, DISCONNECT_TIMEOUT_MS);
      });
      await Promise.race([new Promise((resolve) => client.end(false, resolve)), late]);
      clearTimeout(timer);
    }
    client.end(true);
  }

  #ended(client: MqttClient, reason = this.#reason): void {
    if (this.#client !== client) return;
    this.#client = null;
    const { minMs, maxMs, random } = this.#options.backoff;
    if (this.#upAt !== null && Date.now() - this.#upAt >= STABLE_MS) this.#failures = 0;
    const retryInMs = Math.round(random() * Math.min(maxMs, minMs * 2 ** this.#failures));
    this.#failures++;
    this.#retry = setTimeout(() => this.open(), retryInMs);
    this.#listener.down(reason, retryInMs);
  }
}

function publisher(client: MqttClient): LinkSession['publish'] {
  return (topic, text, qos, acknowledged) => {
    client.publish(topic, text, { qos }, (error) => {
      // An error means that the connection ended first: what then happened to the message is not known.
      if (!error && qos === 1) acknowledged?.();
    });
  };
}
