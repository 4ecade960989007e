import { hasThreeWords, lineAt, type Passage } from './passage.ts';

/** The values of the members that describe something: in packages, dashboards and settings of tools. */
export const readJson = (source: string): Passage[] =>
  [...source.matchAll(/(?<="(?:about|description|title|message)": ")(?:\\.|[^"\\])*/g)]
    .filter(({ 0: text }) => hasThreeWords(text))
    .map(({ index, 0: text }) => ({ kind: 'text', line: lineAt(source, index), text }));
