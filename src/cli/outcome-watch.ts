import { type Api, pause } from './api.ts';
import { RefusedError, UnreachableError } from './errors.ts';
import { type LiveUpdate, openStateStream, type StateStreamOptions, type UpdateStream } from './update-stream.ts';

/** Something that ends by itself, such as a command or a plan, and how its end is recognised. */
export interface OutcomeWatch<Record> {
  updates: StateStreamOptions;
  /** Starts it, or finds it, once the stream is open. Null where there is nothing to follow; `over`: it has ended already. */
  start(): Promise<{ id: string; ended?: boolean } | null>;
  /** Reads it over REST: at its end, and after each interruption of the stream. */
  read(id: string): Promise<Record>;
  hasEnded(record: Record): boolean;
  /** Whether an update is about it. */
  isAbout(update: LiveUpdate, id: string): boolean;
  /** Whether an update says that it is over. */
  isFinalUpdate(update: LiveUpdate): boolean;
  onUpdate?(update: LiveUpdate): void;
  /** Settles when the caller wants to wait no longer. */
  cancelled?: Promise<void>;
}

/** Seconds before each try to open the stream again; a service that restarts is back within them. */
const REOPEN_DELAYS_S = [0.5, 1, 2, 4, 8, 15, 15, 15];
/** A stream that stayed open for so long is opened again after the shortest delay. */
const STABLE_MS = 60_000;
/** Seconds between two reads where there is no stream; the last one repeats. */
const POLL_INTERVALS_S = [2, 4, 8, 15];
const CLOSE_TRY_AGAIN_LATER = 1013;

/**
 * Begins something and waits for its end on `/ws/state`, which the tenant's rate does not count; the record as it is
 * then, or null where nothing began. The stream is opened first, so that no update is missed. Without a stream (a key
 * without `read:devices`, a proxy without WebSockets) the record is read now and then. Throws `Refused` and `Unreachable`.
 */
export async function waitForOutcome<Record>(api: Api, followed: OutcomeWatch<Record>): Promise<Record | null> {
  const over = Promise.withResolvers<void>();
  const early: LiveUpdate[] = [];
  let id: string | null = null;
  const take = (update: LiveUpdate, about: string): void => {
    if (!followed.isAbout(update, about)) return;
    followed.onUpdate?.(update);
    if (followed.isFinalUpdate(update)) over.resolve();
  };
  const open = () =>
    openStateStream(api, followed.updates, (update) => void (id === null ? early.push(update) : take(update, id)));

  const reopen = makeReopener(open);
  let live = await open().catch(nullIfNoStream);
  try {
    const begun = await followed.start();
    if (begun === null) return null;
    id = begun.id;
    if (begun.ended) over.resolve();
    for (const update of early.splice(0)) take(update, id);
    if (live === null) return await pollForOutcome(followed, id);
    while (!(await outcomeBeforeStreamEnd(live, over.promise, followed.cancelled))) {
      live = await reopen();
      if (live === null) return await pollForOutcome(followed, id);
      const record = await followed.read(id);
      if (followed.hasEnded(record)) return record;
    }
    return await followed.read(id);
  } finally {
    live?.close();
  }
}

/** False when the stream was lost before anything else happened. */
async function outcomeBeforeStreamEnd(
  live: UpdateStream,
  over: Promise<void>,
  enough: Promise<void> | undefined,
): Promise<boolean> {
  const lost = live.ended.then(
    () => false,
    (thrown: unknown) => {
      if (isRetryable(thrown)) return false;
      throw thrown;
    },
  );
  return Promise.race([over.then(() => true), lost, ...(enough === undefined ? [] : [enough.then(() => true)])]);
}

/**
 * Opens the stream again, later each time until one has been stable. Throws where the service does not answer; answers null where
 * it does, but ends each stream soon.
 */
function makeReopener(open: () => Promise<UpdateStream>): () => Promise<UpdateStream | null> {
  let tries = 0;
  let openedAt = performance.now();
  return async () => {
    if (performance.now() - openedAt >= STABLE_MS) tries = 0;
    let failure: unknown = null;
    for (const seconds of REOPEN_DELAYS_S.slice(tries)) {
      await pause(seconds * 1000);
      tries += 1;
      try {
        const live = await open();
        openedAt = performance.now();
        return live;
      } catch (thrown) {
        if (!isRetryable(thrown)) throw thrown;
        failure = thrown;
      }
    }
    if (failure !== null) throw failure;
    return null;
  };
}

/** Errors that a retry may resolve: no connection, a service that stops or is busy. */
const isRetryable = (thrown: unknown): boolean =>
  thrown instanceof UnreachableError ||
  (thrown instanceof RefusedError && [CLOSE_TRY_AGAIN_LATER, 503].includes(thrown.problem.status));

/** Where the service is away, the request that begins says so. */
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
  for (let n = 0; ; n++) {
    const record = await read(id);
    if (stopped || hasEnded(record)) return record;
    await Promise.race([
      pause((POLL_INTERVALS_S[n] ?? (POLL_INTERVALS_S.at(-1) as number)) * 1000),
      ...(cancelled === undefined ? [] : [cancelled]),
    ]);
  }
}
