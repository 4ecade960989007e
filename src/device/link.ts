import { Socket } from 'node:net';
import { connect, type MqttClient } from 'mqtt';
import { backoffDelay } from '../domain/backoff.ts';
import type { Milliseconds } from '../domain/values.ts';
import type { SessionCredentials } from '../protocol/session-token.ts';

/** Exponential back-off with full jitter: waits `random() * span` ms; the span doubles from `minMs` to `maxMs`. */
export interface Backoff {
  minMs: Milliseconds;
  maxMs: Milliseconds;
  /** From 0 to below 1. */
  random: () => number;
}

/** As of `tls.connect` in Node.js. Certificates and keys are PEM or DER. */
export interface TlsOptions {
  ca?: string | string[] | Buffer | Buffer[];
  cert?: string | string[] | Buffer | Buffer[];
  key?: string | string[] | Buffer | Buffer[];
  /** Default true. */
  rejectUnauthorized?: boolean;
  /** Default: the host of `mqttUrl`. */
  servername?: string;
}

export interface LinkOptions {
  mqttUrl: string;
  commandTopic: string;
  /** Called for each connection: a session token is accepted once. */
  credentials: () => SessionCredentials;
  backoff: Backoff;
  keepaliveS: number;
  connectTimeoutMs: Milliseconds;
  tls?: TlsOptions;
}

/** One connection, from the granted `cmd` subscription until it closes. */
export interface LinkSession {
  readonly clientId: string;
  /** `acknowledged` is called on PUBACK, so never for QoS 0. */
  publish(topic: string, text: string, qos: 0 | 1, acknowledged?: () => void): void;
}

export interface LinkListener {
  /** The `cmd` subscription is granted. */
  up(session: LinkSession): void;
  /** Can be called before `up`: the service writes pending commands as it grants the subscription. */
  message(bytes: Buffer, clientId: string): void;
  /** The connection closed, or the attempt failed; the next attempt follows after `retryInMs`. */
  down(reason: string, retryInMs: Milliseconds): void;
}

/** A session that lasted this long resets the back-off. */
const STABLE_MS = 10_000;
const DISCONNECT_TIMEOUT_MS = 1_000;

/** Reconnecting MQTT connection: every attempt uses a new client with new credentials. */
export class Link {
  readonly #options: LinkOptions;
  readonly #listener: LinkListener;
  #client: MqttClient | null = null;
  #retryTimer: NodeJS.Timeout | undefined;
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
    clearTimeout(this.#retryTimer);
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
      reconnectPeriod: 0, // MQTT.js would reconnect with the same token
      queueQoSZero: false,
    });
    this.#client = client;
    this.#reason = 'connection closed';
    this.#upAt = null;
    client.on('error', (error) => {
      this.#reason = error.message || String((error as NodeJS.ErrnoException).code);
    });
    client.on('close', () => this.#onClose(client));
    client.on('message', (_topic, bytes) => {
      if (this.#client === client) this.#listener.message(bytes, clientId);
    });
    client.on('connect', () => {
      // With Nagle's algorithm a message right after a PUBACK waits up to 40 ms for the delayed ACK of the PUBACK.
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

  /** Closes the current connection and reconnects after the back-off. */
  drop(reason: string): void {
    const client = this.#client;
    if (client === null) return;
    client.end(true);
    this.#onClose(client, reason);
  }

  /** Disconnects and does not reconnect. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retryTimer);
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    // A clean DISCONNECT would wait for unacknowledged messages, so it is sent only if there are none.
    if (client.connected && Object.keys(client.outgoing).length === 0) {
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, DISCONNECT_TIMEOUT_MS);
      });
      await Promise.race([new Promise((resolve) => client.end(false, resolve)), timeout]);
      clearTimeout(timer);
    }
    client.end(true);
  }

  #onClose(client: MqttClient, reason = this.#reason): void {
    if (this.#client !== client) return;
    this.#client = null;
    const { minMs, maxMs, random } = this.#options.backoff;
    if (this.#upAt !== null && Date.now() - this.#upAt >= STABLE_MS) this.#failures = 0;
    this.#failures++;
    const retryInMs = Math.round(backoffDelay(this.#failures, { firstMs: minMs, maxMs }, 'full', random));
    this.#retryTimer = setTimeout(() => this.open(), retryInMs);
    this.#listener.down(reason, retryInMs);
  }
}

function publisher(client: MqttClient): LinkSession['publish'] {
  return (topic, text, qos, acknowledged) => {
    client.publish(topic, text, { qos }, (error) => {
      // An error means that the connection closed before the PUBACK: whether the message arrived is unknown.
      if (!error && qos === 1) acknowledged?.();
    });
  };
}
