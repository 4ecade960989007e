import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Overloaded } from '../../../src/actors/contract.ts';
import type { VolatileOutput } from '../../../src/machines/outputs.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { Device, eventually, packets, Raw } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

let service: EdgeHarness;
let edge: OpenMqttEdge;
let device: TestDevice;
let leaseValid: boolean;

beforeEach(async () => {
  service = new EdgeHarness();
  device = service.addDevice();
  leaseValid = true;
  edge = await service.open({ lease: { epoch: 1, valid: () => leaseValid } });
});
afterEach(() => edge.close());

function command(sessionId: string, changes: object = {}): Extract<VolatileOutput, { type: 'command.write' }> {
  const commandId = randomUUID();
  service.commands.set(commandId, { deviceId: device.deviceId });
  return {
    type: 'command.write',
    tenantId: device.tenantId,
    deviceId: device.deviceId,
    commandId,
    sessionId,
    critical: false,
    message: {
      messageId: randomUUID(),
      requestId: randomUUID(),
      action: 'set_brightness',
      params: { level: 40 },
      issuedAt: service.now,
      expiresAt: service.now + 60_000,
    },
    ...changes,
  };
}

const listening = async (of = device) => {
  const client = await Device.connect(service, of, edge.port);
  await client.listen();
  return client;
};
const undone = () => service.events('write.undone');

describe('a command', () => {
  it('is written to its session in QoS 1, signed, numbered from 1, with a new timestamp at each write', async () => {
    for (const alg of ['hmac-sha256', 'ed25519'] as const) {
      device = service.addDevice(undefined, alg);
      const client = await listening();
      const output = command(client.clientId);
      service.emit(output);
      service.now += 5;
      service.emit(output);
      await eventually(() => expect(client.received).toHaveLength(2));
      expect(client.received).toMatchObject(
        [1, 2].map((sequence) => ({
          type: 'cmd',
          sequence,
          qos: 1,
          messageId: output.message.messageId,
          requestId: output.message.requestId,
          payload: {
            command_id: output.commandId,
            action: 'set_brightness',
            params: { level: 40 },
            issued_at: output.message.issuedAt,
            expires_at: output.message.expiresAt,
          },
        })),
      );
      const [first, second] = client.received.map(({ text }) => JSON.parse(text));
      expect(second.timestamp - first.timestamp).toBe(5);
      expect(second.nonce).not.toBe(first.nonce);
      await client.mqtt.endAsync();
    }
    expect(undone()).toEqual([]);
  });

  it('numbers start again in the next session', async () => {
    const first = await listening();
    service.emit(command(first.clientId));
    await eventually(() => expect(first.received).toHaveLength(1));
    service.now += 1;
    const second = await listening();
    service.emit(command(second.clientId));
    await eventually(() => expect(second.received).toMatchObject([{ sequence: 1 }]));
  });

  it('reaches only its device', async () => {
    const client = await listening();
    const other = await listening(service.addDevice(device.tenantId));
    service.emit(command(client.clientId));
    await eventually(() => expect(client.received).toHaveLength(1));
    await other.send('heartbeat', {});
    expect(other.received).toEqual([]);
  });

  it('pending commands are requested once the subscription is granted, after the SUBACK, and once', async () => {
    const client = await Device.connect(service, device, edge.port);
    service.onSubscribed = async (_deviceId, sessionId) => service.emit(command(sessionId));
    await client.listen();
    await client.listen();
    await eventually(() => expect(client.received).toHaveLength(1));
    expect(service.subscriptions).toEqual([client.clientId]);
  });

  it('pending commands are requested again during a store outage', async () => {
    const client = await Device.connect(service, device, edge.port);
    let tries = 0;
    service.onSubscribed = async () => {
      tries += 1;
      if (tries < 2) throw new Error('away');
    };
    await client.listen();
    await eventually(() => expect(tries).toBe(2));
  });

  it('pending commands are requested one at a time during a store outage, for any number of subscriptions, and once more afterwards', async () => {
    const client = await Device.connect(service, device, edge.port);
    let asking = 0;
    let most = 0;
    const held = Promise.withResolvers<void>();
    service.onSubscribed = async () => {
      asking += 1;
      most = Math.max(most, asking);
      await held.promise;
      asking -= 1;
    };
    for (let n = 0; n < 10; n++) {
      await client.listen();
      await client.mqtt.unsubscribeAsync(client.topic('cmd'));
    }
    await client.listen();
    expect(most).toBe(1);
    held.resolve();
    await eventually(() => expect(service.subscriptions).toHaveLength(2));
    await client.mqtt.unsubscribeAsync(client.topic('cmd'));
    await client.listen();
    await eventually(() => expect(service.subscriptions).toHaveLength(3));
  });

  it.each([
    ['the device has no session', () => command('x')],
    ['it is another session', async () => command(`${(await listening()).clientId}x`)],
    [
      'the subscription does not stand',
      async () => command((await Device.connect(service, device, edge.port)).clientId),
    ],
    [
      'the subscription was given up',
      async () => {
        const client = await listening();
        await client.mqtt.unsubscribeAsync(client.topic('cmd'));
        return command(client.clientId);
      },
    ],
    [
      'the device was revoked a moment ago',
      async () => {
        const client = await listening();
        service.row(device.deviceId).revoked = true;
        return command(client.clientId);
      },
    ],
    [
      'the key of the session has ended',
      async () => {
        const client = await listening();
        service.reinstate(device.deviceId, false);
        return command(client.clientId);
      },
    ],
    [
      'the tenant was suspended a moment ago',
      async () => {
        const client = await listening();
        service.tenants.set(device.tenantId, 'suspended');
        return command(client.clientId);
      },
    ],
    [
      'the session has expired',
      async () => {
        const client = await listening();
        service.now += 24 * 3_600_000;
        return command(client.clientId);
      },
    ],
    [
      'the command has expired',
      async () => {
        const client = await listening();
        const output = command(client.clientId);
        service.now = output.message.expiresAt;
        return output;
      },
    ],
    [
      'the lease of the process is over',
      async () => {
        const client = await listening();
        leaseValid = false;
        return command(client.clientId);
      },
    ],
    ['the session is of another tenant', async () => command((await listening()).clientId, { tenantId: randomUUID() })],
  ])('is not written and its mark is reset when %s', async (_why, given) => {
    const output = await given();
    service.emit(output);
    await eventually(() => expect(undone()).toMatchObject([{ sessionId: output.sessionId, at: service.now }]));
    expect(service.counted['written cmd']).toBeUndefined();
    expect(service.counted.undone).toBe(1);
  });

  it('with sealed parameters is written with their values, and not if they cannot be decrypted', async () => {
    const client = await listening();
    const output = command(client.clientId);
    const sealed = (sealedParams: string) => ({ ...output, message: { ...output.message, sealedParams } });
    service.emit(sealed('sealed {"pin":"7391"}'));
    await eventually(() => expect(client.received).toMatchObject([{ payload: { params: { pin: '7391' } } }]));
    service.emit(sealed('modified'));
    await eventually(() => expect(undone()).toHaveLength(1));
    await client.send('heartbeat', {});
    expect(client.received).toHaveLength(1);
  });

  it('of a device that is not in memory is written after reading the store', async () => {
    const client = await listening();
    service.inMemory = false;
    service.emit(command(client.clientId));
    await eventually(() => expect(client.received).toHaveLength(1));
    service.row(device.deviceId).revoked = true;
    service.emit(command(client.clientId));
    await eventually(() => expect(undone()).toHaveLength(1));
  });

  it('that was not written has its mark reset although the runtime is busy', async () => {
    let tries = 0;
    service.commit = async () => {
      tries += 1;
      if (tries === 1) throw new Overloaded('full');
    };
    service.emit(command('x'));
    await eventually(() => expect(tries).toBe(2));
    expect(service.counted.undone).toBe(1);
  });

  it('for a session that was replaced is offered to the new one after its mark was reset', async () => {
    const before = await listening();
    service.now += 1;
    const client = await listening();
    service.emit(command(before.clientId));
    await eventually(() => expect(service.events('session.ready')).toMatchObject([{ sessionId: client.clientId }]));
    expect(undone()).toMatchObject([{ sessionId: before.clientId }]);
  });

  it('that could not be written is not offered to the same session again', async () => {
    const client = await listening();
    const output = command(client.clientId);
    service.emit({ ...output, message: { ...output.message, requestId: 'a|b' } });
    await eventually(() => expect(undone()).toHaveLength(1));
    await client.send('heartbeat', {});
    expect(service.events('session.ready')).toEqual([]);
  });

  it('that cannot be composed is reset, without other effects', async () => {
    const client = await listening();
    const output = command(client.clientId);
    service.emit({ ...output, message: { ...output.message, requestId: 'a|b' } });
    await eventually(() => expect(undone()).toHaveLength(1));
    expect(client.mqtt.connected).toBe(true);
  });
});

describe('a session ends', () => {
  it('at once when its device is revoked', async () => {
    const client = await listening();
    service.revoke(device.deviceId);
    await client.closed();
    expect(service.live.size).toBe(0);
  });

  it('when its device is reinstated, if the end of the revocation was not reported', async () => {
    const client = await listening();
    service.reinstate(device.deviceId);
    await client.closed();
    expect(service.counted['closed ended']).toBe(1);
  });

  it('when its key ends, and not with another key', async () => {
    const client = await listening();
    const end = { type: 'session.end', tenantId: device.tenantId, deviceId: device.deviceId, reason: 'x' } as const;
    service.emit({ ...end, keyVersion: 2 });
    await client.send('heartbeat', {});
    service.emit({ ...end, keyVersion: 1 });
    await client.closed();
  });

  it('at the end of the grace period of its key, when that is rotated', async () => {
    const client = await listening();
    service.rotate(device.deviceId, service.now + 10_000);
    service.now += 9_999;
    await client.send('heartbeat', {});
    service.now += 1;
    await client.closed();
    expect(service.counted['closed expired']).toBe(1);
  });

  it('after 24 hours', async () => {
    const client = await listening();
    service.now += 24 * 3_600_000;
    await client.closed();
    expect(service.counted['closed expired']).toBe(1);
  });

  it('when its tenant is suspended, and not with another tenant', async () => {
    const client = await listening();
    const other = await listening(service.addDevice());
    service.emit({ type: 'tenant.changed', tenantId: device.tenantId, suspended: true, at: service.now });
    await client.closed();
    service.emit({ type: 'tenant.changed', tenantId: other.device.tenantId, suspended: false, at: service.now });
    await other.send('heartbeat', {});
  });
});

describe('a subscription of a device', () => {
  it('is granted for its own cmd topic only', async () => {
    const { raw } = await Raw.signedIn(service, device, edge.port);
    const own = `proto/${device.tenantId}/device/${device.deviceId}`;
    const refused = [
      `${own}/state`,
      `${own}/+`,
      `${own}/#`,
      '#',
      '+/+/+/+/+',
      '$SYS/#',
      `proto/${device.tenantId}/device/+/cmd`,
      `proto/${device.tenantId}/device/${randomUUID()}/cmd`,
      `proto/${randomUUID()}/device/${device.deviceId}/cmd`,
      `${own}/cmd/x`,
      'a/'.repeat(20),
    ];
    raw.socket.write(packets.subscribe(7, `${own}/cmd`, ...refused));
    const answer = [0x90, 2 + 1 + refused.length, 0, 7, 1, ...refused.map(() => 0x80)];
    await eventually(() => expect([...raw.bytes]).toEqual(answer));
    expect(service.subscriptions).toHaveLength(1);
    raw.socket.destroy();
  });
});

describe('during shutdown', () => {
  it('messages in flight are committed and acknowledged, and no new ones are read', async () => {
    const client = await listening();
    let commit = () => {};
    service.commit = () => new Promise((resolve) => (commit = resolve));
    const sent = client.send('state', { state: {} });
    await eventually(() => expect(service.received).toHaveLength(1));
    const closing = edge.close();
    void client.send('state', { state: {} }).catch(() => {});
    await eventLoopTurns();
    commit();
    await sent;
    await closing;
    await client.closed();
    expect(service.received).toHaveLength(1);
    expect(service.live.size).toBe(0);
  });

  it('a process that lost its lease closes every connection at once', async () => {
    const client = await listening();
    edge.abort();
    await client.closed();
    expect(edge.connections()).toBe(0);
  });
});

it('a process whose lease ended acknowledges nothing and closes the connection', async () => {
  const client = await listening();
  service.commit = async () => {
    leaseValid = false;
  };
  const closed = new Promise<void>((resolve) => client.mqtt.once('close', resolve));
  const acknowledged = vi.fn();
  client.mqtt.on('packetreceive', ({ cmd }) => cmd === 'puback' && acknowledged());
  void client.send('state', { state: { on: true } }).catch(() => {});
  await closed;
  expect(service.events('state.reported')).toHaveLength(1);
  expect(acknowledged).not.toHaveBeenCalled();
});
