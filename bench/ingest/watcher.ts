import { WebSocket } from 'ws';

// The WebSocket client that the ingested states are streamed to: it keeps the last update of each device. To stay cheap
// it parses only those, on request.
const latest = new Map<string, Buffer>();
let updates = 0;
const ID = Buffer.from('"device_id":"');
const counterOf = (update: Buffer): number =>
  (JSON.parse(update.toString()) as { state: { counter: number } }).state.counter;

process.on('message', ({ watch, report }: { watch?: { port: number; token: string }; report?: true }) => {
  if (report)
    process.send?.({ seen: { updates, counters: [...latest].map(([id, update]) => [id, counterOf(update)]) } });
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
