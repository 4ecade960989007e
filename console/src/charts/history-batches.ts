import type { queryHistory } from '../../../src/operations/devices/history-query.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { requestJson } from '../api/client.ts';
import { Problem } from '../api/problem.ts';
import type { SeriesId } from './chart-window.ts';
import type { HistoryAnswer } from './points.ts';

/** The history of a series that is wanted; `to` is null for everything later, and `step` for a length that the service chooses. */
export interface WantedHistory extends SeriesId {
  from: number;
  to: number | null;
  step: string | null;
}

type Send = (wanted: readonly WantedHistory[]) => Promise<readonly HistoryAnswer[]>;

interface Waiting {
  wanted: WantedHistory;
  resolve(answer: HistoryAnswer): void;
  reject(thrown: unknown): void;
}

/** The series of a page are wanted within this time. */
const COLLECT_MS = 20;
/** A request counts one in the rate limit for so many series, and each may have 2,000 points (docs/history.md). */
export const MAX_BATCH = 25;
/** Times that were computed one after the other are one time. */
const MAX_SPREAD_MS = 60_000;

/** Groups requests of the same time and step into one; one request at a time, because four of a tenant may run. */
export class HistoryBatches {
  readonly #send: Send;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(send: Send) {
    this.#send = send;
  }

  /** The history from `wanted.from` or a little earlier. */
  load(wanted: WantedHistory): Promise<HistoryAnswer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ wanted, resolve, reject });
      if (this.#isRunning) return;
      this.#isRunning = true;
      setTimeout(() => void this.#run(), COLLECT_MS);
    });
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) await this.#answer(this.#nextBatch());
    this.#isRunning = false;
  }

  #nextBatch(): Waiting[] {
    const [first] = this.#waiting as [Waiting, ...Waiting[]];
    const { from, to, step } = first.wanted;
    const isLike = ({ wanted }: Waiting): boolean =>
      wanted.to === to && wanted.step === step && Math.abs(wanted.from - from) <= MAX_SPREAD_MS;
    const batch = this.#waiting.filter(isLike).slice(0, MAX_BATCH);
    this.#waiting = this.#waiting.filter((one) => !batch.includes(one));
    return batch;
  }

  async #answer(batch: readonly Waiting[]): Promise<void> {
    const from = Math.min(...batch.map(({ wanted }) => wanted.from));
    try {
      const answers = await this.#send(batch.map(({ wanted }) => ({ ...wanted, from })));
      for (const [n, { resolve }] of batch.entries()) resolve(answers[n] as HistoryAnswer);
    } catch (thrown) {
      if (batch.length > 1 && isOfOneSeries(thrown)) for (const one of batch) await this.#answer([one]);
      else for (const { reject } of batch) reject(thrown);
    }
  }
}

/** A query is refused as a whole, also if one of its devices is missing or all series together are too much. */
const isOfOneSeries = (thrown: unknown): boolean =>
  thrown instanceof Problem && (thrown.status === 404 || thrown.status === 400);

async function sendQuery(wanted: readonly WantedHistory[]): Promise<readonly HistoryAnswer[]> {
  const [{ from, to, step }] = wanted as readonly [WantedHistory];
  const { series } = await requestJson<ResponseBody<typeof queryHistory>>('POST', '/v1/history/query', {
    body: {
      series: wanted.map(({ deviceId, property }) => ({ device_id: deviceId, property })),
      from: new Date(from).toISOString(),
      ...(to !== null && { to: new Date(to).toISOString() }),
      ...(step !== null && { step }),
    },
  });
  return series;
}

/** The batches of the page. */
export const historyBatches = new HistoryBatches(sendQuery);
