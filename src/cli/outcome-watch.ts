import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import { type Api, pause } from './api.ts';
import { RefusedError } from './errors.ts';
import { isRetryable, makeReopener, resolvesBeforeLoss } from './stream-reopening.ts';
import { type LiveUpdate, openStateStream, type StateStreamOptions } from './update-stream.ts';

/** How to start an operation that ends by itself, such as a command or a plan, and how to recognise its end. */
export interface OutcomeWatch<Record> {
  updates: StateStreamOptions;
  /**
   * Starts or looks up the operation once the stream is open. Null if there is nothing to follow; `ended`: it already
   * has.
   */
  start(): Promise<{ id: string; ended?: boolean } | null>;
  /** Reads the record over REST: at the end, and after each interruption of the stream. */
  read(id: string): Promise<Record>;
  hasEnded(record: Record): boolean;
  /** Whether an update belongs to the operation. */
  isAbout(update: LiveUpdate, id: string): boolean;
  /** Whether an update ends the operation. */
  isFinalUpdate(update: LiveUpdate): boolean;
  onUpdate?(update: LiveUpdate): void;
  /** Resolves when the caller stops waiting. */
  cancelled?: Promise<void>;
}

/** Delays between two reads without a stream. */
const POLL: BackoffLimits = { firstMs: 2_000, maxMs: 15_000 };

/**
 * Starts an operation and waits for its end on `/ws/state`, which does not count against the tenant's rate limit.
 * Returns the final record, or null if nothing was started. The stream is opened first, so that no update is missed.
 * Without a stream (a key without `read:devices`, a proxy without WebSockets) the record is polled. Throws
 * `RefusedError` and `UnreachableError`.
 */
export async function waitForOutcome<Record>(api: Api, watch: OutcomeWatch<Record>): Promise<Record | null> {
  const ended = Promise.withResolvers<void>();
  const early: LiveUpdate[] = [];
  let id: string | null = null;
  const handle = (update: LiveUpdate, watchedId: string): void => {
    if (!watch.isAbout(update, watchedId)) return;
    watch.onUpdate?.(update);
    if (watch.isFinalUpdate(update)) ended.resolve();
  };
  const open = () =>
    openStateStream(api, watch.updates, (update) => void (id === null ? early.push(update) : handle(update, id)));

  const reopen = makeReopener(open, watch.cancelled);
  let stream = await open().catch(nullIfNoStream);
  try {
    const started = await watch.start();
    if (started === null) return null;
    id = started.id;
    if (started.ended) ended.resolve();
    for (const update of early.splice(0)) handle(update, id);
    if (stream === null) return await pollForOutcome(watch, id);
    while (!(await resolvesBeforeLoss(stream, [ended.promise, watch.cancelled]))) {
      stream = await reopen();
      if (stream === null) return await pollForOutcome(watch, id);
      const record = await watch.read(id);
      if (watch.hasEnded(record)) return record;
    }
    return await watch.read(id);
  } finally {
    stream?.close();
  }
}

/** Null for a stream that cannot be opened: if the service is unreachable, the request that follows reports it. */
function nullIfNoStream(thrown: unknown): null {
  if (isRetryable(thrown) || (thrown instanceof RefusedError && [403, 4403].includes(thrown.problem.status)))
    return null;
  throw thrown;
}

async function pollForOutcome<Record>(
  { read, hasEnded, cancelled }: OutcomeWatch<Record>,
  id: string,
): Promise<Record> {
  let stopped = false;
  void cancelled?.then(() => {
    stopped = true;
  });
  for (let reads = 1; ; reads++) {
    const record = await read(id);
    if (stopped || hasEnded(record)) return record;
    await Promise.race([pause(backoffDelay(reads, POLL)), ...(cancelled === undefined ? [] : [cancelled])]);
  }
}
