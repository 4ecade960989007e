import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Aedes } from 'aedes';

/*
 * The MQTT floor: aedes alone, acknowledging the same bytes. With `--durable` it stores acknowledged messages for
 * durable sessions in LevelDB (aedes-persistence-level).
 */
const durable = process.argv.includes('--durable');
const folder = durable ? mkdtempSync(join(tmpdir(), 'bench-level-')) : null;

async function persistence() {
  if (folder === null) return null;
  const { Level } = await import('level');
  const { default: levelPersistence } = await import('aedes-persistence-level');
  return levelPersistence(new Level(folder));
}

const store = await persistence();
const broker = await Aedes.createBroker({
  concurrency: 0,
  id: 'floor',
  ...(store ? { persistence: store as never } : {}),
});
const server = createServer(broker.handle);
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => {
  if (folder) rmSync(folder, { recursive: true, force: true });
  process.exit(0);
});
