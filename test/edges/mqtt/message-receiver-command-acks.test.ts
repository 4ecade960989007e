import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Device, eventually, packets, Raw } from './client.ts';
import { device, edge, latch, open, openEdge, service, withEdge } from './edge-fixture.ts';

withEdge();

describe('an acknowledgement of a command', () => {
  const known = () => {
    const id = randomUUID();
    service.commands.set(id, { deviceId: device.deviceId });
    return id;
  };

  it('is forwarded with its status, and whether the command belongs to this device', async () => {
    const client = await open();
    const mine = known();
    const others = randomUUID();
    service.commands.set(others, { deviceId: randomUUID() });
    await client.send('cmd_ack', { command_id: mine, status: 'in_progress', progress: 40, state: { a: 1 } });
    await client.send('cmd_ack', { command_id: mine, status: 'failed', error: 'jammed', result: [1] });
    await client.send('cmd_ack', { command_id: others, status: 'accepted' });
    await client.send('cmd_ack', { command_id: randomUUID(), status: 'accepted' });
    await client.send('cmd_ack', { command_id: 'x', status: 'accepted' });
    expect(service.events('ack.reported')).toMatchObject([
      { commandId: mine, known: true, ack: { status: 'in_progress', progress: 40 }, state: { a: 1 } },
      { commandId: mine, known: true, ack: { status: 'failed', error: 'jammed', result: [1] } },
      { commandId: others, known: false },
      { known: false },
      { commandId: 'x', known: false },
    ]);
    expect(service.counted['refused UNKNOWN_COMMAND']).toBe(3);
  });

  it('gets its PUBACK after it was applied to the command', async () => {
    const client = await open();
    const { open: release, wait } = latch();
    service.onMessageCommit = wait;
    let acknowledged = false;
    const sent = client.send('cmd_ack', { command_id: known(), status: 'succeeded' }).then(() => {
      acknowledged = true;
    });
    await eventually(() => expect(service.seen).toHaveLength(1));
    await client.ping();
    expect(acknowledged).toBe(false);
    release();
    await sent;
  });

  it('whose command must be loaded first is applied even if its sender disconnects', async () => {
    await openEdge();
    service.inMemory = false;
    const { raw, clientId } = await Raw.signedIn(service, device, edge.port);
    const other = await Device.connect(service, service.addDevice(), edge.port);
    const client = other.as(device, clientId);
    const { open: read, wait } = latch();
    service.reads = wait;
    const sent = [
      client.compose('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.compose('heartbeat', {}),
    ];
    const topics = [client.topic('cmd_ack'), client.topic('heartbeat')];
    const frames = sent.map((text, n) => packets.publish(topics[n] as string, text, { qos: 0 }));
    raw.socket.end(Buffer.concat([...frames, packets.disconnect]));
    await eventually(() => expect(service.closed).toContain(clientId));
    expect(service.received).toEqual([]);
    read();
    await eventually(() =>
      expect(service.received.map(({ event }) => event.type)).toEqual(['ack.reported', 'heartbeat.received']),
    );
  });

  it('whose command must be loaded first is not overtaken by later messages', async () => {
    const client = await open();
    service.inMemory = false;
    const sent = [
      client.send('state', { state: { n: 1 } }),
      client.send('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.send('state', { state: { n: 2 } }),
      client.send('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.send('heartbeat', {}),
    ];
    await Promise.all(sent);
    expect(service.received.map(({ event }) => event.type)).toEqual([
      'state.reported',
      'ack.reported',
      'state.reported',
      'ack.reported',
      'heartbeat.received',
    ]);
  });
});
