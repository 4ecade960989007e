import { startChild } from './child.ts';
import type { Load, LoadResult } from './mqtt-load.ts';

/** State messages that are acknowledged a second. The load signs everything and connects before it is measured. */
export async function acknowledgedRate(load: Load): Promise<number> {
  const child = startChild(new URL('./mqtt-load.ts', import.meta.url));
  child.send({ load });
  await child.receive('ready');
  child.send({ go: true });
  const { acknowledged, milliseconds } = await child.receive<LoadResult>('result');
  await child.end();
  return (acknowledged / milliseconds) * 1_000;
}
