export { capital, humanize, sentenceCase } from '../../../src/domain/readable-name.ts';

/** `1 device`, `2 devices`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString()} ${count === 1 ? noun : `${noun}s`}`;

export const abbreviateId = (id: string): string => `…${id.slice(-8)}`;
