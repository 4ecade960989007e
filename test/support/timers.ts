import { vi } from 'vitest';

/**
 * Keeps the callback of the next `setTimeout` in place of starting a timer; `expire` calls it. For what depends on the moment
 * at which one timer ends, where other timers have to run on. Put back after the test.
 */
export function holdNextTimer(): { expire(): void } {
  let held: (() => void) | null = null;
  vi.spyOn(globalThis, 'setTimeout').mockImplementationOnce(((callback: () => void) => {
    held = callback;
  }) as unknown as typeof setTimeout);
  return {
    expire() {
      if (held === null) throw new Error('no timer was set');
      held();
    },
  };
}
