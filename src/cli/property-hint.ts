import type { SampleValue } from '../domain/history/sample.ts';
import type { Api } from './api.ts';
import { fetchPropertyValues } from './history-reading.ts';
import type { Io } from './io.ts';

/** Names the properties of the device on stderr if it has not reported this one, and if the credential may read them. */
export async function printKnownProperties(
  io: Io,
  api: Api,
  { deviceId, property }: { deviceId: string; property: string },
): Promise<void> {
  const values = await fetchPropertyValues(api, deviceId).catch((): [string, SampleValue][] => []);
  const known = values.map(([name]) => name);
  if (known.length > 0 && !known.includes(property))
    io.err(io.errColors.dim(`the state of the device has: ${known.join(', ')}`));
}
