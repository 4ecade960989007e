import { WebSocket } from 'ws';

// The one WebSocket client that the ingested states are streamed to: it keeps the last counter of each device.
// What it costs is not the service's: only the last update of each device is read.
const latest = new Map<string, Buffer>();
let updates = 0;
const ID = Buffer.from('"device_id":"');
const counterOf = (update: Buffer): number =>
  (JSON.parse(update.toString()) as { state: { counter: number } }).state.counter;

process.on('message', ({ watch, tell }: { watch?: { port: number; token: string }; tell?: true }) => {
  if (tell) process.send?.({ seen: { updates, counters: [...latest].map(([id, update]) => [id, counterOf(update)]) } });
  if (!watch) return;
  const socket = new WebSocket(`ws://127.0.0.1:${watch.port}/ws/state?token=${watch.token}`);
  socket.on('open', () => process.send?.({ watching: true }));
  socket.on('message', (data: Buffer) => {
    updates += 1;
    const at = data.indexOf(ID) + ID.length;
    latest.set(data.toString('latin1', at, at + 36), data);
  });
});
process.on('disconnect', () => process.exit(0));
