import { type Api, pause } from './api.ts';
import { Refused, Unreachable } from './failures.ts';
import { type Live, type LiveOptions, type LiveUpdate, openLive } from './live.ts';

/** Something that ends by itself, such as a command or a plan, and how its end is recognised. */
export interface Followed<Record> {
  updates: LiveOptions;
  /** Starts it, or finds it, once the stream is open. Null where there is nothing to follow; `over`: it has ended already. */
  begin(): Promise<{ id: string; over?: boolean } | null>;
  /** Reads it over REST: at its end, and after each interruption of the stream. */
  read(id: string): Promise<Record>;
  isOver(record: Record): boolean;
  /** Whether an update is about it. */
  isAbout(update: LiveUpdate, id: string): boolean;
  /** Whether an update says that it is over. */
  ends(update: LiveUpdate): boolean;
  seen?(update: LiveUpdate): void;
  /** Settles when the caller wants to wait no longer. */
  enough?: Promise<void>;
}

/** Seconds before each try to open the stream again; a service that restarts is back within them. */
const REOPEN_S = [0.5, 1, 2, 4, 8, 15, 15, 15];
/** Seconds between two reads where the credential may not open the stream; the last one repeats. */
const READ_S = [2, 4, 8, 15];
const CLOSED_BUSY = 1013;

/**
 * Begins something and waits for its end on `/ws/state`, which the tenant's rate does not count; the record as it is
 * then, or null where nothing began. The stream is opened first, so that no update is missed. A credential that may not
 * open it, such as a key without `read:devices`, reads the record now and then. Throws `Refused` and `Unreachable`.
 */
export async function followToEnd<Record>(api: Api, followed: Followed<Record>): Promise<Record | null> {
  const over = Promise.withResolvers<void>();
  const early: LiveUpdate[] = [];
  let id: string | null = null;
  const take = (update: LiveUpdate, about: string): void => {
    if (!followed.isAbout(update, about)) return;
    followed.seen?.(update);
    if (followed.ends(update)) over.resolve();
  };
  const open = () =>
    openLive(api, followed.updates, (update) => void (id === null ? early.push(update) : take(update, id)));

  let live = await open().catch(nullIfForbidden);
  try {
    const begun = await followed.begin();
    if (begun === null) return null;
    id = begun.id;
    if (begun.over) over.resolve();
    for (const update of early.splice(0)) take(update, id);
    if (live === null) return await readToEnd(followed, id);
    while (!(await endsBeforeStream(live, over.promise, followed.enough))) {
      live = await reopen(open);
      const record = await followed.read(id);
      if (followed.isOver(record)) return record;
    }
    return await followed.read(id);
  } finally {
    live?.close();
  }
}

/** False when the stream was lost before anything else happened. */
async function endsBeforeStream(live: Live, over: Promise<void>, enough: Promise<void> | undefined): Promise<boolean> {
  const lost = live.ended.then(
    () => false,
    (thrown: unknown) => {
      if (mayReturn(thrown)) return false;
      throw thrown;
    },
  );
  return Promise.race([over.then(() => true), lost, ...(enough === undefined ? [] : [enough.then(() => true)])]);
}

async function reopen(open: () => Promise<Live>): Promise<Live> {
  let last: unknown;
  for (const seconds of REOPEN_S) {
    await pause(seconds * 1000);
    try {
      return await open();
    } catch (thrown) {
      if (!mayReturn(thrown)) throw thrown;
      last = thrown;
    }
  }
  throw last;
}

/** Errors that a retry may resolve: no connection, a service that stops or is busy. */
const mayReturn = (thrown: unknown): boolean =>
  thrown instanceof Unreachable || (thrown instanceof Refused && [CLOSED_BUSY, 503].includes(thrown.problem.status));

function nullIfForbidden(thrown: unknown): null {
  if (thrown instanceof Refused && [403, 4403].includes(thrown.problem.status)) return null;
  throw thrown;
}

async function readToEnd<Record>({ read, isOver, enough }: Followed<Record>, id: string): Promise<Record> {
  let stopped = false;
  void enough?.then(() => {
    stopped = true;
  });
  for (let n = 0; ; n++) {
    const record = await read(id);
    if (stopped || isOver(record)) return record;
    await Promise.race([
      pause((READ_S[n] ?? (READ_S.at(-1) as number)) * 1000),
      ...(enough === undefined ? [] : [enough]),
    ]);
  }
}
