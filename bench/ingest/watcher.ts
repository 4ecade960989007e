import { WebSocket } from 'ws';

// The one WebSocket client that the ingested states are streamed to: it keeps the last counter of each device.
const counters = new Map<string, number>();
let updates = 0;

process.on('message', ({ watch, tell }: { watch?: { port: number; token: string }; tell?: true }) => {
  if (tell) process.send?.({ seen: { updates, counters: [...counters] } });
  if (!watch) return;
  const socket = new WebSocket(`ws://127.0.0.1:${watch.port}/ws/state?token=${watch.token}`);
  socket.on('open', () => process.send?.({ watching: true }));
  socket.on('message', (data) => {
    const update = JSON.parse(String(data)) as { device_id: string; state: { counter: number } };
    updates += 1;
    counters.set(update.device_id, update.state.counter);
  });
});
process.on('disconnect', () => process.exit(0));
