import { connectAsync } from 'mqtt';

// A durable session that subscribes to all topics: a broker with durable sessions stores messages until it acknowledges
// them.
process.on('message', async ({ listen }: { listen?: { port: number } }) => {
  if (!listen) return;
  const client = await connectAsync(`mqtt://127.0.0.1:${listen.port}`, { clean: false, clientId: 'subscriber' });
  await client.subscribeAsync('proto/#', { qos: 1 });
  process.send?.({ listening: true });
});
process.on('disconnect', () => process.exit(0));
