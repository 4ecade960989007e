import { createSecretKey, randomBytes } from 'node:crypto';
import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import {
  BINDING_BYTES,
  ClientHandshake,
  CONFIRMATION_BYTES,
  deriveLinkKeys,
  HELLO_BYTES,
  type LinkContent,
  type LinkKeys,
  type LinkVersions,
  ListenerHandshake,
  PROOF_BYTES,
} from '../../../src/edges/cluster/link-handshake.ts';

const master = () => createSecretKey(randomBytes(32));
const [oldMaster, newMaster] = [master(), master()];
const keys = deriveLinkKeys(newMaster, null);
const [listenerId, clientId] = [v7(), v7()];
const tcp = Buffer.alloc(BINDING_BYTES);
const content: LinkContent = { kind: 'mqtt', shard: 200, transport: 'websocket' };

const listen = (own: LinkKeys = keys, binding = tcp) => new ListenerHandshake(own, listenerId, binding);
const dial = (
  hello: Buffer,
  own: LinkKeys = keys,
  options: { peer?: string; binding?: Buffer; nodeId?: string } = {},
) => ClientHandshake.begin(hello, { keys: own, nodeId: clientId, peer: listenerId, content, binding: tcp, ...options });

/** The status that the client reads, or the side that ended the handshake. */
function shake(listener: ListenerHandshake, client: ClientHandshake | null): string {
  if (client === null) return 'no client';
  const verified = listener.verify(client.proof);
  if (verified === null) return 'refused by the listener';
  return client.verify(listener.confirm('accepted')) ?? 'refused by the client';
}

describe('a handshake', () => {
  it('with the same key gives the id of the client and the content of the link', () => {
    const listener = listen();
    const client = dial(listener.hello) as ClientHandshake;
    expect(listener.hello).toHaveLength(HELLO_BYTES);
    expect(client.proof).toHaveLength(PROOF_BYTES);
    expect(listener.verify(client.proof)).toEqual({ peer: clientId, content });
    const confirmation = listener.confirm('misdirected');
    expect(confirmation).toHaveLength(CONFIRMATION_BYTES);
    expect(client.verify(confirmation)).toBe('misdirected');
  });

  it.each<[string, LinkContent]>([
    ['HTTP', { kind: 'http' }],
    ['an upgrade', { kind: 'upgrade', shard: 255 }],
    ['MQTT over TLS', { kind: 'mqtt', shard: 0, transport: 'tls' }],
  ])('carries %s', (_, carried) => {
    const listener = listen();
    const client = ClientHandshake.begin(listener.hello, {
      ...{ keys, nodeId: clientId, peer: listenerId, binding: tcp },
      content: carried,
    });
    expect(listener.verify(client?.proof as Buffer)?.content).toEqual(carried);
  });

  it.each([
    ['before', deriveLinkKeys(oldMaster, null), deriveLinkKeys(oldMaster, null)],
    ['from the first node with the new key', deriveLinkKeys(newMaster, oldMaster), deriveLinkKeys(oldMaster, null)],
    ['to the first node with the new key', deriveLinkKeys(oldMaster, null), deriveLinkKeys(newMaster, oldMaster)],
    ['when all nodes have both', deriveLinkKeys(newMaster, oldMaster), deriveLinkKeys(newMaster, oldMaster)],
    ['when a node announces the next key', deriveLinkKeys(oldMaster, newMaster), deriveLinkKeys(oldMaster, null)],
    ['from it to the first that uses it', deriveLinkKeys(oldMaster, newMaster), deriveLinkKeys(newMaster, oldMaster)],
    ['when the first node has only the new key', deriveLinkKeys(newMaster, null), deriveLinkKeys(newMaster, oldMaster)],
  ])('succeeds in a rotation of the master key: %s', (_, ofClient, ofListener) => {
    const listener = listen(ofListener);
    expect(shake(listener, dial(listener.hello, ofClient))).toBe('accepted');
  });

  it('fails with another key', () => {
    const listener = listen(deriveLinkKeys(oldMaster, null));
    expect(shake(listener, dial(listener.hello))).toBe('refused by the listener');
  });

  it('fails if the client expects another node', () => {
    const listener = listen();
    expect(shake(listener, dial(listener.hello, keys, { peer: v7() }))).toBe('refused by the listener');
  });

  it('fails across two TLS sessions: the handshake cannot be relayed', () => {
    const listener = listen(keys, randomBytes(BINDING_BYTES));
    expect(shake(listener, dial(listener.hello, keys, { binding: randomBytes(BINDING_BYTES) }))).toBe(
      'refused by the listener',
    );
  });

  it('uses the version of the listener, whichever of the two builds is newer', () => {
    const older = { oldest: 1, newest: 1, listen: 1 };
    const between = { oldest: 1, newest: 2, listen: 1 };
    const newer = { oldest: 1, newest: 2, listen: 2 };
    const shakeWith = (ofListener: LinkVersions, ofClient: LinkVersions) => {
      const listener = new ListenerHandshake(keys, listenerId, tcp, ofListener);
      const parts = { keys, nodeId: clientId, peer: listenerId, content, binding: tcp };
      return shake(listener, ClientHandshake.begin(listener.hello, parts, ofClient));
    };
    for (const [listener, client] of [
      [older, between],
      [between, older],
      [between, newer],
      [newer, between],
    ] as const) {
      expect(shakeWith(listener, client)).toBe('accepted');
    }
    expect(shakeWith(newer, older)).toBe('no client');
    expect(shakeWith(older, { oldest: 2, newest: 2, listen: 2 })).toBe('no client');
  });

  it('fails with a version that was changed on the way', () => {
    const listener = listen();
    const changed = Buffer.from(listener.hello);
    changed[3] = 2;
    const parts = { keys, nodeId: clientId, peer: listenerId, content, binding: tcp };
    const client = ClientHandshake.begin(changed, parts, { oldest: 1, newest: 2, listen: 1 });
    expect(shake(listener, client)).toBe('refused by the listener');
  });

  it('fails with another version, and with a service of another protocol', () => {
    const { hello } = listen();
    const newer = Buffer.from(hello);
    newer[3] = 2;
    expect(dial(newer)).toBeNull();
    expect(dial(Buffer.from('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n'))).toBeNull();
  });
});

describe('a recorded or reflected message', () => {
  it('of a client is refused by the next handshake: replay', () => {
    const first = listen();
    const { proof } = dial(first.hello) as ClientHandshake;
    expect(first.verify(proof)).not.toBeNull();
    expect(listen().verify(proof)).toBeNull();
  });

  it('of a listener is refused by the next handshake: replay', () => {
    const first = listen();
    first.verify((dial(first.hello) as ClientHandshake).proof);
    const second = dial(first.hello) as ClientHandshake;
    expect(second.verify(first.confirm('accepted'))).toBeNull();
  });

  it('of a client is refused as a confirmation, and from the listener itself: reflection', () => {
    const listener = listen();
    const client = dial(listener.hello) as ClientHandshake;
    const macsAt = PROOF_BYTES - 64;
    for (const status of [0, 1, 255])
      expect(
        client.verify(Buffer.concat([Buffer.from([status]), client.proof.subarray(macsAt, macsAt + 32)])),
      ).toBeNull();
    // A listener that dials an attacker, which passes the messages back to the listener's own port.
    const reflected = dial(listener.hello, keys, { nodeId: listenerId }) as ClientHandshake;
    expect(listener.verify(reflected.proof)).toBeNull();
  });

  it('is refused with any changed byte', () => {
    const listener = listen();
    const client = dial(listener.hello) as ClientHandshake;
    const { proof } = client;
    // The second MAC is random: the client has no previous key.
    for (let at = 0; at < PROOF_BYTES - 32; at += 1) {
      const changed = Buffer.from(proof);
      changed[at] = (changed[at] as number) ^ 1;
      expect(listener.verify(changed)).toBeNull();
    }
    listener.verify(proof);
    const confirmation = listener.confirm('accepted');
    for (let at = 0; at < CONFIRMATION_BYTES; at += 1) {
      const changed = Buffer.from(confirmation);
      changed[at] = (changed[at] as number) ^ 1;
      expect(client.verify(changed)).toBeNull();
    }
  });

  it('with an unknown content is refused although its MAC is right', () => {
    const listener = listen();
    const client = ClientHandshake.begin(listener.hello, {
      ...{ keys, nodeId: clientId, peer: listenerId, binding: tcp },
      content: { kind: 'future', shard: 1 } as never,
    });
    expect(listener.verify(client?.proof as Buffer)).toBeNull();
  });
});
