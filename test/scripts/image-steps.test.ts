import { describe, expect, it } from 'vitest';
import { copyOf, environmentOf, imageStages } from '../../scripts/image-steps.ts';

describe('the stages of a Dockerfile', () => {
  it('have names and steps, without comments and with continued lines', () => {
    const text =
      '# a comment\nFROM node:1 AS build\nRUN one && \\\n  two\n\nFROM node:1\nUSER node\nCMD ["node", "a"]\n';
    expect(imageStages(text)).toEqual([
      { name: 'build', steps: [{ instruction: 'RUN', text: 'one && two' }] },
      {
        name: '',
        steps: [
          { instruction: 'USER', text: 'node' },
          { instruction: 'CMD', text: '["node", "a"]' },
        ],
      },
    ]);
  });

  it('have no instruction that would be left out', () => {
    expect(() => imageStages('FROM a\nADD b c')).toThrow('unknown instruction: ADD b c');
    expect(() => imageStages('RUN a\nFROM b')).toThrow('before FROM');
  });
});

it('ENV sets several variables', () => {
  expect(environmentOf('A=1 B=x=y')).toEqual({ A: '1', B: 'x=y' });
});

it('COPY names sources, a target and a stage', () => {
  expect(copyOf('a b ./')).toEqual({ from: null, sources: ['a', 'b'], target: './' });
  expect(copyOf('--from=build /a/b ./b')).toEqual({ from: 'build', sources: ['/a/b'], target: './b' });
  expect(() => copyOf('--chown=node a b')).toThrow('unknown flags of COPY: --chown=node');
});
