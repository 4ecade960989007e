import { UnreachableError } from './errors.ts';
import type { Io } from './io.ts';
import { subscribeToInterrupt } from './signals.ts';
import { makeReopener, resolvesBeforeLoss } from './stream-reopening.ts';
import type { UpdateListener, UpdateSubscription } from './update-stream.ts';

/**
 * Passes updates of the stream to `onUpdate` until Ctrl-C or `count` updates. Says on stderr what is watched (`subject`),
 * and when a stream was lost and is opened again. Throws `RefusedError`, and `UnreachableError` if the stream cannot be
 * opened again.
 */
export async function consumeStream(
  io: Io,
  subject: string,
  open: (onUpdate: UpdateListener) => Promise<UpdateSubscription>,
  onUpdate: UpdateListener,
  count?: number,
): Promise<void> {
  const state = { left: count ?? Number.POSITIVE_INFINITY, ended: false };
  const done = Promise.withResolvers<void>();
  const end = () => {
    state.ended = true;
    done.resolve();
  };
  const unsubscribe = subscribeToInterrupt(end);
  const openOnce = () =>
    open((update) => {
      if (state.left <= 0) return;
      onUpdate(update);
      if (--state.left === 0) end();
    });
  const reopen = makeReopener(openOnce, done.promise);
  try {
    let stream = await openOnce();
    io.err(io.errColors.dim(`watching ${subject}; Ctrl-C ends`));
    while (!(await resolvesBeforeLoss(stream, [done.promise]))) {
      io.err(io.errColors.dim('the stream was interrupted and is opened again; updates in between may be missing'));
      const next = await reopen();
      if (next === null && state.ended) return;
      if (next === null) throw new UnreachableError('the service closes each stream');
      stream = next;
    }
    stream.close();
    await stream.ended;
  } finally {
    unsubscribe();
  }
}
