import { vi } from 'vitest';

/**
 * Captures the callback of the next `setTimeout` instead of starting a timer; `expire` calls it. For tests that depend
 * on the moment at which one timer fires while other timers run. Restore the mock after the test.
 */
export function holdNextTimer(): { expire(): void } {
  let held: (() => void) | null = null;
  vi.spyOn(globalThis, 'setTimeout').mockImplementationOnce(((callback: () => void) => {
    held = callback;
  }) as unknown as typeof setTimeout);
  return {
    expire() {
      if (held === null) throw new Error('no timer was started');
      held();
    },
  };
}
