import { createHmac, createSecretKey, hkdfSync, type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import { SHARD_COUNT } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { type MqttTransport, mqttTransports } from '../shared/mqtt-client.ts';

/*
 * The handshake of a link between two nodes (docs/decisions/0042-links-between-nodes.md). Each side proves that it has the
 * cluster key by an HMAC over the nonces of both sides, the ids of both nodes, what the link carries, and, over TLS, the
 * session's channel binding (RFC 9266).
 *
 *     listener → client   hello          "TKL", version, nonce of the listener
 *     client → listener   proof          nonce and id of the client, content, MAC with the current and the previous key
 *     listener → client   confirmation   status, MAC with the key that the client proved
 *
 * The listener identifies itself only to a client that has proved the key. Its hello names the version of everything that
 * follows. A build that adds a version dials with it from then on, and listens with it one release later, when the nodes
 * of the build before can dial it (docs/decisions/0046).
 */

const MAGIC = Buffer.from('TKL', 'latin1');
/** Versions of the protocol that this build speaks as a client, and the one with which it listens. */
const versions: LinkVersions = { oldest: 1, newest: 1, listen: 1 };
const VERSION_AT = MAGIC.length;
const NONCE_BYTES = 32;
const ID_BYTES = 16;
const CONTENT_BYTES = 3;
const MAC_BYTES = 32;
/** Length of a TLS exporter value; over TCP it is all zeros. */
export const BINDING_BYTES = 32;

export const HELLO_BYTES: number = MAGIC.length + 1 + NONCE_BYTES;
export const PROOF_BYTES: number = NONCE_BYTES + ID_BYTES + CONTENT_BYTES + 2 * MAC_BYTES;
export const CONFIRMATION_BYTES: number = 1 + MAC_BYTES;

/**
 * The content of a link: HTTP/1.1 requests of any shard, one upgrade request of one shard, or one MQTT connection, whose
 * bytes follow a PROXY protocol header.
 */
export type LinkContent =
  | { kind: 'http' }
  | { kind: 'upgrade'; shard: number }
  | { kind: 'mqtt'; shard: number; transport: MqttTransport };

const kinds = ['http', 'upgrade', 'mqtt'] as const;

/** Whether the listener takes over the link. `misdirected`: it is not the owner of the shard. */
const statuses = ['accepted', 'misdirected'] as const;
export type LinkStatus = (typeof statuses)[number];

/**
 * The cluster keys of a deployment. Both are accepted, so that the master key can be rotated node by node: `other` is the
 * next or the previous one. A proof has room for two, which is enough: of three consecutive keys each node has the
 * current and a neighbouring one, so any two nodes that are one step apart have one in common.
 */
export interface LinkKeys {
  current: KeyObject;
  other: KeyObject | null;
}

/** Derives the cluster keys from the master keys (HKDF-SHA-256, RFC 5869). */
export function deriveLinkKeys(master: KeyObject, other: KeyObject | null): LinkKeys {
  const derive = (key: KeyObject) =>
    createSecretKey(Buffer.from(hkdfSync('sha256', key, '', 'twinkeep cluster link', 32)));
  return { current: derive(master), other: other === null ? null : derive(other) };
}

export interface LinkVersions {
  oldest: number;
  newest: number;
  listen: number;
}

/** The values that both sides prove to have in common. */
interface Transcript {
  version: number;
  listenerNonce: Buffer;
  clientNonce: Buffer;
  clientId: Buffer;
  listenerId: Buffer;
  content: Buffer;
  binding: Buffer;
}

type Role = 'client' | 'listener';

function macOf(key: KeyObject, role: Role, transcript: Transcript, status: Buffer = NO_STATUS): Buffer {
  const { version, listenerNonce, clientNonce, clientId, listenerId, content, binding } = transcript;
  return createHmac('sha256', key)
    .update(`twinkeep cluster link ${version} ${role}\0`)
    .update(Buffer.concat([listenerNonce, clientNonce, clientId, listenerId, content, binding, status]))
    .digest();
}

const NO_STATUS = Buffer.alloc(1, 0xff);

const keysIn = ({ current, other }: LinkKeys): KeyObject[] => (other === null ? [current] : [current, other]);

/** The key with which one of the MACs was made; null if none. Compares all of them, in constant time. */
function provedKey(keys: LinkKeys, macs: readonly Buffer[], expected: (key: KeyObject) => Buffer): KeyObject | null {
  let proved: KeyObject | null = null;
  for (const key of keysIn(keys)) {
    const mac = expected(key);
    for (const given of macs) if (timingSafeEqual(mac, given)) proved ??= key;
  }
  return proved;
}

const idBytes = (id: Uuid): Buffer => Buffer.from(id.replaceAll('-', ''), 'hex');
const idText = (bytes: Buffer): Uuid => bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');

function encodeContent(content: LinkContent): Buffer {
  const transport = content.kind === 'mqtt' ? mqttTransports.indexOf(content.transport) : 0;
  return Buffer.from([kinds.indexOf(content.kind), transport, content.kind === 'http' ? 0 : content.shard]);
}

function decodeContent(bytes: Buffer): LinkContent | null {
  const [kindByte = 0, transportByte = 0, shard = 0] = bytes;
  const kind = kinds[kindByte];
  const transport = mqttTransports[transportByte];
  if (kind === undefined || transport === undefined || shard >= SHARD_COUNT) return null;
  return kind === 'http' ? { kind } : kind === 'upgrade' ? { kind, shard } : { kind, shard, transport };
}

/** The listener's side of one handshake. */
export class ListenerHandshake {
  readonly hello: Buffer;
  readonly #keys: LinkKeys;
  readonly #nodeId: Uuid;
  readonly #binding: Buffer;
  readonly #version: number;
  readonly #nonce = randomBytes(NONCE_BYTES);
  #proved: { key: KeyObject; transcript: Transcript } | null = null;

  constructor(keys: LinkKeys, nodeId: Uuid, binding: Buffer, { listen }: LinkVersions = versions) {
    this.#keys = keys;
    this.#nodeId = nodeId;
    this.#binding = binding;
    this.#version = listen;
    this.hello = Buffer.concat([MAGIC, Buffer.from([listen]), this.#nonce]);
  }

  /** The client's id and the content of the link; null if the proof of `PROOF_BYTES` bytes is not valid. */
  verify(proof: Buffer): { peer: Uuid; content: LinkContent } | null {
    const contentAt = NONCE_BYTES + ID_BYTES;
    const macsAt = contentAt + CONTENT_BYTES;
    const transcript: Transcript = {
      version: this.#version,
      ...{ listenerNonce: this.#nonce, listenerId: idBytes(this.#nodeId), binding: this.#binding },
      clientNonce: proof.subarray(0, NONCE_BYTES),
      clientId: proof.subarray(NONCE_BYTES, contentAt),
      content: proof.subarray(contentAt, macsAt),
    };
    const macs = [proof.subarray(macsAt, macsAt + MAC_BYTES), proof.subarray(macsAt + MAC_BYTES)];
    const key = provedKey(this.#keys, macs, (candidate) => macOf(candidate, 'client', transcript));
    const peer = idText(transcript.clientId);
    const content = decodeContent(transcript.content);
    if (key === null || content === null || peer === this.#nodeId) return null;
    this.#proved = { key, transcript };
    return { peer, content };
  }

  /** The answer to a valid proof. */
  confirm(status: LinkStatus): Buffer {
    if (this.#proved === null) throw new Error('confirmation before a valid proof');
    const code = Buffer.from([statuses.indexOf(status)]);
    return Buffer.concat([code, macOf(this.#proved.key, 'listener', this.#proved.transcript, code)]);
  }
}

/** The client's side of one handshake. */
export class ClientHandshake {
  readonly #keys: LinkKeys;
  readonly #transcript: Transcript;

  private constructor(keys: LinkKeys, transcript: Transcript) {
    this.#keys = keys;
    this.#transcript = transcript;
  }

  /** `hello` has `HELLO_BYTES` bytes. Null if this build does not speak its version, or if it is not a hello. */
  static begin(
    hello: Buffer,
    {
      keys,
      nodeId,
      peer,
      content,
      binding,
    }: {
      keys: LinkKeys;
      nodeId: Uuid;
      /** The id of the node that is expected there. */
      peer: Uuid;
      content: LinkContent;
      binding: Buffer;
    },
    { oldest, newest }: LinkVersions = versions,
  ): ClientHandshake | null {
    const version = hello[VERSION_AT] ?? 0;
    if (!hello.subarray(0, VERSION_AT).equals(MAGIC) || version < oldest || version > newest) return null;
    return new ClientHandshake(keys, {
      version,
      listenerNonce: hello.subarray(VERSION_AT + 1),
      clientNonce: randomBytes(NONCE_BYTES),
      clientId: idBytes(nodeId),
      listenerId: idBytes(peer),
      content: encodeContent(content),
      binding,
    });
  }

  /** Has two MACs in any case, so that it does not show whether there is another key. */
  get proof(): Buffer {
    const { clientNonce, clientId, content } = this.#transcript;
    const macs = keysIn(this.#keys).map((key) => macOf(key, 'client', this.#transcript));
    if (macs.length === 1) macs.push(randomBytes(MAC_BYTES));
    return Buffer.concat([clientNonce, clientId, content, ...macs]);
  }

  /** The status in a confirmation of `CONFIRMATION_BYTES` bytes; null if it is not from the expected node. */
  verify(confirmation: Buffer): LinkStatus | null {
    const code = confirmation.subarray(0, 1);
    const proved = provedKey(this.#keys, [confirmation.subarray(1)], (key) =>
      macOf(key, 'listener', this.#transcript, code),
    );
    return proved === null ? null : (statuses[code[0] as number] ?? null);
  }
}
