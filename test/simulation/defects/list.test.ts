import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { defects } from './list.ts';

const sourceOf = (file: string): string => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');

describe('a planted defect', () => {
  it.each(Object.entries(defects))('%s can be applied: what it replaces is in its file once', (_, { changes }) => {
    for (const { file, from } of changes)
      expect([file, from, sourceOf(file).split(from).length - 1]).toEqual([file, from, 1]);
  });
});
