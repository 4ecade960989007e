import { PassThrough } from 'node:stream';
import { beforeEach, describe, expect, it } from 'vitest';
import { UnauthenticatedConnections } from '../../../src/edges/shared/unauthenticated-connections.ts';
import { eventLoopTurns } from '../../support/clock.ts';

let now: number;
let connections: UnauthenticatedConnections;
beforeEach(() => {
  now = 0;
  connections = new UnauthenticatedConnections({ perNetwork: 2, total: 3, signInMs: 1_000 }, () => now);
});

function open(address: string | null) {
  const stream = new PassThrough();
  return { stream, signedIn: connections.admit(stream, address) };
}

describe('connections that have not signed in', () => {
  it('are refused beyond the limit of their network, an address or a /64, while the others may be signing in', () => {
    for (const address of ['192.0.2.1', '2001:db8::1']) {
      connections = new UnauthenticatedConnections({ perNetwork: 2, total: 3, signInMs: 1_000 }, () => now);
      const [first] = [open(address), open(address)];
      expect(open(address === '192.0.2.1' ? address : '2001:db8::2').signedIn).toBeNull();
      expect(first.stream.destroyed).toBe(false);
      expect(open('192.0.2.2').signedIn).not.toBeNull();
    }
  });

  it('end for a new one of their network when they are older than a sign-in takes, the oldest first', () => {
    const [first, second] = [open('192.0.2.1'), open('192.0.2.1')];
    now = 1_000;
    expect(open('192.0.2.1').signedIn).not.toBeNull();
    expect([first.stream.destroyed, second.stream.destroyed]).toEqual([true, false]);
  });

  it('have a limit for all networks together, that of clients with an unknown address too', () => {
    const [first] = [open(null), open(null), open(null)];
    expect(open('192.0.2.1').signedIn).toBeNull();
    now = 1_000;
    expect(open('192.0.2.1').signedIn).not.toBeNull();
    expect(first.stream.destroyed).toBe(true);
  });

  it('are counted until they sign in or close', async () => {
    const [first, second] = [open('192.0.2.1'), open('192.0.2.1')];
    first.signedIn?.();
    second.stream.destroy();
    await eventLoopTurns();
    expect(connections.sizes()).toEqual({ unauthenticated_connections: 0, unauthenticated_networks: 0 });
    expect([first.stream.destroyed, first.stream.listenerCount('close')]).toEqual([
      false,
      new PassThrough().listenerCount('close'),
    ]);
  });
});
