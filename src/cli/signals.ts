/** npm forwards Ctrl-C to a child that also gets it from the terminal: a signal within this time is a duplicate. */
const DUPLICATE_SIGNAL_MS = 1_000;
/** Exit code of a command that was interrupted: 128 + SIGINT. */
export const INTERRUPTED_EXIT_CODE = 130;

/**
 * Calls `listener` on the first SIGINT or SIGTERM; a second one exits at once. Returns a function that unsubscribes.
 */
export function subscribeToInterrupt(listener: (signal: NodeJS.Signals) => void): () => void {
  let firstAt: number | null = null;
  const onSignal = (signal: NodeJS.Signals) => {
    const now = performance.now();
    if (firstAt === null) {
      firstAt = now;
      listener(signal);
    } else if (now - firstAt > DUPLICATE_SIGNAL_MS) {
      process.exit(INTERRUPTED_EXIT_CODE);
    }
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return () => {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  };
}
