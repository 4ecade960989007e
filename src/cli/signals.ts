/** npm passes Ctrl-C on to a child that has it from the terminal already: what comes this soon is the same one. */
const DUPLICATE_SIGNAL_MS = 1_000;
/** The exit code of what Ctrl-C cut short. */
export const INTERRUPTED_EXIT_CODE = 130;

/** Calls back at the first SIGINT or SIGTERM; a second one ends the process at once. Returns the function that stops listening. */
export function onInterrupt(first: (signal: NodeJS.Signals) => void): () => void {
  let firstAt: number | null = null;
  const heard = (signal: NodeJS.Signals) => {
    const now = performance.now();
    if (firstAt === null) {
      firstAt = now;
      first(signal);
    } else if (now - firstAt > DUPLICATE_SIGNAL_MS) {
      process.exit(INTERRUPTED_EXIT_CODE);
    }
  };
  process.on('SIGINT', heard);
  process.on('SIGTERM', heard);
  return () => {
    process.off('SIGINT', heard);
    process.off('SIGTERM', heard);
  };
}
