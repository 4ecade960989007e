import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { Device, eventually, packets, Raw } from './client.ts';
import { device, edge, house, latch, open, openEdge, withEdge } from './edge-fixture.ts';

withEdge();

describe('an acknowledgement of a command', () => {
  const known = () => {
    const id = randomUUID();
    house.commands.set(id, { deviceId: device.deviceId });
    return id;
  };

  it('is forwarded with its status, and whether the command belongs to this device', async () => {
    const client = await open();
    const mine = known();
    const others = randomUUID();
    house.commands.set(others, { deviceId: randomUUID() });
    await client.say('cmd_ack', { command_id: mine, status: 'in_progress', progress: 40, state: { a: 1 } });
    await client.say('cmd_ack', { command_id: mine, status: 'failed', error: 'jammed', result: [1] });
    await client.say('cmd_ack', { command_id: others, status: 'accepted' });
    await client.say('cmd_ack', { command_id: randomUUID(), status: 'accepted' });
    await client.say('cmd_ack', { command_id: 'x', status: 'accepted' });
    expect(house.events('ack.reported')).toMatchObject([
      { commandId: mine, known: true, ack: { status: 'in_progress', progress: 40 }, state: { a: 1 } },
      { commandId: mine, known: true, ack: { status: 'failed', error: 'jammed', result: [1] } },
      { commandId: others, known: false },
      { known: false },
      { commandId: 'x', known: false },
    ]);
    expect(house.counted['refused UNKNOWN_COMMAND']).toBe(3);
  });

  it('gets its PUBACK after it was applied to the command', async () => {
    const client = await open();
    const { open: tell, wait } = latch();
    house.told = wait;
    let acknowledged = false;
    const said = client.say('cmd_ack', { command_id: known(), status: 'succeeded' }).then(() => {
      acknowledged = true;
    });
    await eventually(() => expect(house.seen).toHaveLength(1));
    await client.ping();
    expect(acknowledged).toBe(false);
    tell();
    await said;
  });

  it('whose command must be loaded first is applied even if its sender disconnects', async () => {
    await openEdge();
    house.inMemory = false;
    const { raw, clientId } = await Raw.signedIn(house, device, edge.port);
    const other = await Device.connect(house, house.addDevice(), edge.port);
    const client = other.as(device, clientId);
    const { open: read, wait } = latch();
    house.reads = wait;
    const sent = [
      client.compose('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.compose('heartbeat', {}),
    ];
    const topics = [client.topic('cmd_ack'), client.topic('heartbeat')];
    const frames = sent.map((text, n) => packets.publish(topics[n] as string, text, { qos: 0 }));
    raw.socket.end(Buffer.concat([...frames, packets.disconnect]));
    await eventually(() => expect(house.closed).toContain(clientId));
    expect(house.received).toEqual([]);
    read();
    await eventually(() =>
      expect(house.received.map(({ event }) => event.type)).toEqual(['ack.reported', 'heartbeat.received']),
    );
  });

  it('whose command must be loaded first is not overtaken by later messages', async () => {
    const client = await open();
    house.inMemory = false;
    const said = [
      client.say('state', { state: { n: 1 } }),
      client.say('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.say('state', { state: { n: 2 } }),
      client.say('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.say('heartbeat', {}),
    ];
    await Promise.all(said);
    expect(house.received.map(({ event }) => event.type)).toEqual([
      'state.reported',
      'ack.reported',
      'state.reported',
      'ack.reported',
      'heartbeat.received',
    ]);
  });
});
