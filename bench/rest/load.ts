import type { Uuid } from '../../src/domain/values.ts';
import { RawConnection } from '../support/raw-http.ts';

/* The load process: callers on keep-alive connections, each with one request at a time. */

export type RequestKind = 'GET /devices' | 'GET /devices, everybody another page' | 'POST …/command';

export interface Loop {
  kind: RequestKind;
  port: number;
  token: string;
  /** Devices that receive commands, round robin. */
  devices: readonly Uuid[];
  connections: number;
  warmMs: number;
  measureMs: number;
}

export interface LoopResult {
  perSecond: number;
  /** All answered requests, including those outside the measured time. */
  total: number;
  /** Milliseconds. */
  latencies: number[];
  /** Size of the last response body. */
  bytes: number;
}

const LIST = '/v1/devices?limit=50';

async function run({ kind, port, token, devices, connections, warmMs, measureMs }: Loop): Promise<LoopResult> {
  const callers = await Promise.all(Array.from({ length: connections }, () => RawConnection.open(port)));
  const begin = performance.now() + warmMs;
  const end = begin + measureMs;
  const headers = `Authorization: Bearer ${token}\r\n`;
  const latencies: number[] = [];
  let [total, bytes] = [0, 0];
  const pages = kind === 'GET /devices, everybody another page' ? await pagesFor(callers, headers) : [LIST];
  const send = (caller: RawConnection, at: number, n: number) => {
    if (kind !== 'POST …/command') return caller.get(pages[at % pages.length] as string, headers);
    // Lives for a day, so that nothing expires during the measurement.
    const body = `{"action":"set_brightness","params":{"level":${n % 101}},"ttl_s":86400}`;
    return caller.post(`/v1/device/${devices[n % devices.length]}/command`, headers, body);
  };
  await Promise.all(
    callers.map(async (caller, at) => {
      while (performance.now() < end) {
        const started = performance.now();
        total += 1;
        const { status, body } = await send(caller, at, total);
        if (status !== 200 && status !== 202) throw new Error(`${status} ${body}`);
        bytes = body.length;
        const now = performance.now();
        if (now >= begin && now < end) latencies.push(now - started);
      }
    }),
  );
  for (const caller of callers) caller.close();
  return { perSecond: latencies.length / (measureMs / 1000), total, latencies, bytes };
}

/** A different page of the list for each caller. */
async function pagesFor(callers: readonly RawConnection[], headers: string): Promise<string[]> {
  const pages: string[] = [];
  let path = LIST;
  for (const caller of callers) {
    pages.push(path);
    const { next_cursor } = JSON.parse((await caller.get(path, headers)).body) as { next_cursor: string | null };
    if (next_cursor === null) break;
    path = `${LIST}&cursor=${encodeURIComponent(next_cursor)}`;
  }
  return pages;
}

process.on('message', ({ loop }: { loop: Loop }) => {
  run(loop).then(
    (result) => process.send?.({ result }),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on('disconnect', () => process.exit(0));
