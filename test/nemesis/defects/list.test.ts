import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { faultNames } from '../faults.ts';
import { nemesisDefects } from './list.ts';

const sourceOf = (file: string): string => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');

describe('a planted defect of nodes', () => {
  it.each(Object.entries(nemesisDefects))('%s can be applied, and its faults exist', (_, { changes, faults }) => {
    for (const { file, from } of changes)
      expect([file, from, sourceOf(file).split(from).length - 1]).toEqual([file, from, 1]);
    for (const fault of faults) expect(faultNames).toContain(fault);
  });
});
