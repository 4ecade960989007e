import { errorReason } from './api.ts';
import { FailedError, RefusedError } from './errors.ts';
import type { Io } from './io.ts';

/** Tells a story, one line a step; a step that does not happen ends it. */
export interface StepReporter {
  step<T>(title: string, happen: () => Promise<{ value: T; told: string }>): Promise<T>;
  /** What is done next. */
  heading(text: string): void;
}

const TITLE_WIDTH = 15;

export function makeStepReporter(io: Io): StepReporter {
  const { green, red, bold, dim } = io.outColors;
  const terminal = io.stdout.isTTY === true;
  const wipe = () => void (terminal && io.stdout.write('\r\u001b[2K'));
  return {
    async step(title, happen) {
      if (terminal) io.stdout.write(dim(`… ${title}`));
      try {
        const { value, told } = await happen();
        wipe();
        io.out(`${green('✓')} ${title.padEnd(TITLE_WIDTH)} ${told}`);
        return value;
      } catch (error) {
        const reason = error instanceof RefusedError ? `${error.problem.status} ${error.message}` : errorReason(error);
        wipe();
        io.out(`${red('✗')} ${title.padEnd(TITLE_WIDTH)} ${reason}`);
        throw new FailedError(`the step '${title}' did not happen`);
      }
    },
    heading: (text) => io.out(`\n${bold(text)}`),
  };
}
