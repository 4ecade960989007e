import { PassThrough } from 'node:stream';
import { beforeEach, describe, expect, it } from 'vitest';
import { UnauthenticatedConnections } from '../../../src/edges/shared/unauthenticated-connections.ts';
import { eventLoopTurns } from '../../support/clock.ts';

let now: number;
let connections: UnauthenticatedConnections;
beforeEach(() => {
  now = 0;
  connections = new UnauthenticatedConnections({ perNetwork: 2, total: 3, silentMs: 1_000 }, () => now);
});

function open(address: string | null) {
  const stream = new PassThrough();
  return { stream, pending: connections.admit(stream, address) };
}

describe('connections that have not signed in', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::2'],
  ])('are refused beyond the limit of their network, an address or a /64, before they are silent: %s', (one, other) => {
    const [first] = [open(one), open(one)];
    expect(open(other).pending).toBeNull();
    expect(first.stream.destroyed).toBe(false);
    expect(open('192.0.2.2').pending).not.toBeNull();
  });

  it('end for a new one of their network when they are silent for long, the oldest first', () => {
    const [first, second] = [open('192.0.2.1'), open('192.0.2.1')];
    now = 1_000;
    expect(open('192.0.2.1').pending).not.toBeNull();
    expect([first.stream.destroyed, second.stream.destroyed]).toEqual([true, false]);
  });

  it('do not end once their credential has arrived, however long the sign-in takes', () => {
    const [first, second] = [open('192.0.2.1'), open('192.0.2.1')];
    first.pending?.received();
    now = 1_000_000;
    expect(open('192.0.2.1').pending).not.toBeNull();
    expect([first.stream.destroyed, second.stream.destroyed]).toEqual([false, true]);
    for (const address of ['192.0.2.1', '192.0.2.1']) open(address).pending?.received();
    expect(open('192.0.2.1').pending).toBeNull();
    first.pending?.signedIn();
    expect(open('192.0.2.1').pending).not.toBeNull();
  });

  it('have a limit for all networks together, that of clients with an unknown address too', () => {
    const [first] = [open(null), open(null), open(null)];
    expect(open('192.0.2.1').pending).toBeNull();
    now = 1_000;
    expect(open('192.0.2.1').pending).not.toBeNull();
    expect(first.stream.destroyed).toBe(true);
  });

  it('are counted until they sign in or close, and not if they have ended before', async () => {
    const [first, second] = [open('192.0.2.1'), open('192.0.2.1')];
    first.pending?.received();
    first.pending?.signedIn();
    second.stream.destroy();
    await eventLoopTurns();
    expect(Object.values(connections.sizes())).toEqual([0, 0, 0]);
    expect(first.stream.destroyed).toBe(false);
    expect(first.stream.listenerCount('close')).toBe(new PassThrough().listenerCount('close'));
    expect(connections.admit(second.stream, '192.0.2.1')).toBeNull();
  });
});
