import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { type PeerNode, shardOf } from '../../domain/shards.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Milliseconds } from '../../domain/values.ts';
import type { MqttClient } from '../shared/mqtt-client.ts';
import { encodeProxyHeader } from '../shared/proxy-protocol.ts';
import { CREDENTIAL_RECEIVED } from '../shared/unauthenticated-connections.ts';
import { endConnection } from '../shared/upgrade.ts';
import { type FirstPacket, readConnect, type UncheckedCredentials } from './connect-packet.ts';
import { type LinkDialler, LinkError } from './link-dialler.ts';
import { relayBytes } from './relay-bytes.ts';
import type { Attempt, ShardRouter } from './shard-router.ts';
import type { TenantHint, TenantHints } from './tenant-hints.ts';

/** The limits of the MQTT edge before the CONNACK. */
export interface MqttConnectLimits {
  /** Time until the CONNECT has arrived. */
  connectMs: Milliseconds;
  /** Longest CONNECT. */
  maxPacketBytesBeforeConnack: number;
}

export interface MqttRouterParts {
  router: ShardRouter;
  hints: Pick<TenantHints, 'ofCredential' | 'ofCertificate'>;
  dialler: Pick<LinkDialler, 'open'>;
  limits: MqttConnectLimits;
}

/** The user name of a tenant user, whose password is the credential; the one of a device is the id of its tenant. */
const USER = 'jwt';
/** CONNACK with return code 3, server unavailable (MQTT 3.1.1 §3.2.2.3). */
const UNAVAILABLE = '\x20\x02\x00\x03';

/** Routes MQTT connections to the nodes that own their tenants, by the credentials in the CONNECT. */
export class MqttRouter {
  readonly #parts: MqttRouterParts;

  constructor(parts: MqttRouterParts) {
    this.#parts = parts;
  }

  /**
   * Reads the CONNECT of a public connection. `accept` takes the connection over with all its bytes if it belongs to this
   * node, or to none; otherwise it is joined with a link to the owner. Resolves when either is done, or the connection
   * has ended; never rejects.
   */
  async route(source: Duplex, client: MqttClient, accept: () => void): Promise<void> {
    source.on('error', () => source.destroy());
    try {
      const first = await this.#read(source);
      source.emit(CREDENTIAL_RECEIVED);
      const { credentials } = first;
      const tenantId = credentials === null ? null : await this.#tenantOf(credentials, client);
      if (source.destroyed) return;
      const takeOver = () => {
        source.unshift(first.bytes);
        accept();
      };
      if (tenantId === null) return void takeOver();
      const routed = await this.#parts.router.route(shardOf(tenantId), {
        here: (leave) => {
          try {
            if (!source.destroyed) takeOver();
          } finally {
            leave();
          }
        },
        there: (node) => this.#forward(node, shardOf(tenantId), { source, client, first }),
      });
      if (!routed) refuse(source);
    } catch {
      // The stream ended, or the tenant could not be looked up.
      refuse(source);
    }
  }

  async #read(source: Duplex): Promise<FirstPacket> {
    const { connectMs, maxPacketBytesBeforeConnack } = this.#parts.limits;
    const timer = setTimeout(() => source.destroy(), connectMs);
    try {
      return await readConnect(source, maxPacketBytesBeforeConnack);
    } finally {
      clearTimeout(timer);
    }
  }

  #tenantOf({ username, password }: UncheckedCredentials, { address, certificate }: MqttClient): TenantHint {
    // The tenant that a device with a certificate names is the only one whose CAs are tried.
    const isNamed = username !== null && isUuid(username);
    if (certificate !== undefined && password === null && username !== USER && !isNamed)
      return this.#parts.hints.ofCertificate(certificate, address);
    if (username === null) return null;
    if (username === USER) return password === null ? null : this.#parts.hints.ofCredential(`${password}`, address);
    return isNamed ? username : null;
  }

  async #forward(node: PeerNode, shard: number, { source, client, first }: PublicConnection): Promise<Attempt> {
    if (source.destroyed) return 'done';
    let link: Duplex;
    try {
      link = await this.#parts.dialler.open(node, { kind: 'mqtt', shard, transport: client.transport });
    } catch (error) {
      if (error instanceof LinkError) return 'again';
      throw error;
    }
    if (source.destroyed) {
      link.destroy();
      return 'done';
    }
    link.write(Buffer.concat([headerOf(client), first.bytes]));
    relayBytes(source, link);
    return 'done';
  }
}

interface PublicConnection {
  source: Duplex;
  client: MqttClient;
  first: FirstPacket;
}

/** The ports are not needed, nor is the address to which the client connected. */
function headerOf({ address, encrypted, certificate }: MqttClient): Buffer {
  const unspecified = isIPv6(address) ? '::' : '0.0.0.0';
  return encodeProxyHeader({ address, port: 0 }, { address: unspecified, port: 0 }, encrypted, certificate ?? null);
}

function refuse(source: Duplex): void {
  if (source.destroyed) return;
  source.resume();
  endConnection(source, UNAVAILABLE);
}
