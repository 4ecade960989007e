import { type BackoffLimits, backoffDelay } from '../domain/backoff.ts';
import { type Api, pause } from './api.ts';
import { RefusedError, UnreachableError } from './errors.ts';
import { type LiveUpdate, openStateStream, type StateStreamOptions, type UpdateSubscription } from './update-stream.ts';

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

/** Delays before the attempts to reopen the stream: 60 s in all, in which a service restarts. */
const REOPEN: BackoffLimits = { firstMs: 500, maxMs: 15_000 };
const MAX_REOPEN_ATTEMPTS = 8;
/** A stream that was open for this long resets the delays. */
const STABLE_MS = 60_000;
/** Delays between two reads without a stream. */
const POLL: BackoffLimits = { firstMs: 2_000, maxMs: 15_000 };
const CLOSE_TRY_AGAIN_LATER = 1013;

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

  const reopen = makeReopener(open);
  let stream = await open().catch(nullIfNoStream);
  try {
    const started = await watch.start();
    if (started === null) return null;
    id = started.id;
    if (started.ended) ended.resolve();
    for (const update of early.splice(0)) handle(update, id);
    if (stream === null) return await pollForOutcome(watch, id);
    while (!(await outcomeBeforeStreamEnd(stream, ended.promise, watch.cancelled))) {
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

/** False if the stream was lost before the outcome or the cancellation. */
async function outcomeBeforeStreamEnd(
  stream: UpdateSubscription,
  outcome: Promise<void>,
  cancelled: Promise<void> | undefined,
): Promise<boolean> {
  const lost = stream.ended.then(
    () => false,
    (thrown: unknown) => {
      if (isRetryable(thrown)) return false;
      throw thrown;
    },
  );
  return Promise.race([
    outcome.then(() => true),
    lost,
    ...(cancelled === undefined ? [] : [cancelled.then(() => true)]),
  ]);
}

/**
 * Returns a function that reopens the stream with increasing delays, which a stable stream resets. It throws if the
 * service does not answer, and returns null if the service answers but keeps closing streams.
 */
function makeReopener(open: () => Promise<UpdateSubscription>): () => Promise<UpdateSubscription | null> {
  let attempts = 0;
  let openedAt = performance.now();
  return async () => {
    if (performance.now() - openedAt >= STABLE_MS) attempts = 0;
    let failure: unknown = null;
    while (attempts < MAX_REOPEN_ATTEMPTS) {
      attempts += 1;
      await pause(backoffDelay(attempts, REOPEN));
      try {
        const stream = await open();
        openedAt = performance.now();
        return stream;
      } catch (thrown) {
        if (!isRetryable(thrown)) throw thrown;
        failure = thrown;
      }
    }
    if (failure !== null) throw failure;
    return null;
  };
}

/** Errors that a retry may resolve: no connection, or a service that is stopping or busy. */
const isRetryable = (thrown: unknown): boolean =>
  thrown instanceof UnreachableError ||
  (thrown instanceof RefusedError && [CLOSE_TRY_AGAIN_LATER, 503].includes(thrown.problem.status));

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
