import { errorReason } from './api.ts';
import { FailedError, RefusedError } from './errors.ts';
import type { Io } from './io.ts';
import { renderLine } from './terminal-text.ts';

/** Prints one line per step of a scenario; a step that fails ends it. */
export interface StepReporter {
  step<T>(title: string, run: () => Promise<{ value: T; message: string }>): Promise<T>;
  /** Prints the title of the following steps. */
  heading(text: string): void;
}

const TITLE_WIDTH = 15;

export function makeStepReporter(io: Io): StepReporter {
  const { green, red, bold, dim } = io.outColors;
  const terminal = io.stdout.isTTY === true;
  const clearLine = () => void (terminal && io.stdout.write('\r\u001b[2K'));
  return {
    async step(title, run) {
      if (terminal) io.stdout.write(renderLine(dim(`… ${title}`)));
      try {
        const { value, message } = await run();
        clearLine();
        io.out(`${green('✓')} ${title.padEnd(TITLE_WIDTH)} ${message}`);
        return value;
      } catch (error) {
        const reason = error instanceof RefusedError ? `${error.problem.status} ${error.message}` : errorReason(error);
        clearLine();
        io.out(`${red('✗')} ${title.padEnd(TITLE_WIDTH)} ${reason}`);
        throw new FailedError(`the step '${title}' failed`);
      }
    },
    heading(text) {
      io.out('');
      io.out(bold(text));
    },
  };
}
