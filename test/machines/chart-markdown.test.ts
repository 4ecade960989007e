import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createMachine } from 'xstate';
import { chartToMarkdown } from '../../src/machines/chart-markdown.ts';
import { actorKinds } from '../../src/machines/outputs.ts';
import { currentDefinition } from '../../src/machines/versions.ts';

const drawn = (kind: (typeof actorKinds)[number]) =>
  readFileSync(new URL(`../../docs/machines/${kind}.md`, import.meta.url), 'utf8');

describe('the drawings in docs/machines', () => {
  it.each(actorKinds)('match the %s machine (npm run drawings)', (kind) => {
    expect(chartToMarkdown(currentDefinition(kind).machine)).toBe(drawn(kind));
  });

  it('explain every state of every machine', () => {
    for (const kind of actorKinds) expect(drawn(kind)).not.toMatch(/^### .+\n\n( Final\.)?\n/m);
  });
});

describe('a drawing', () => {
  it('of a machine without regions has one diagram and no chapter', () => {
    const page = chartToMarkdown(
      createMachine({ id: 'bare', initial: 'a', states: { a: { on: { go: 'b' } }, b: {} } }),
    );
    expect(page).toContain('# The bare machine\n\n\n\nAn arrow');
    expect(page).toContain(
      '```mermaid\nstateDiagram-v2\n  [*] --> a\n  state "a" as a\n  state "b" as b\n  a --> b: go\n```',
    );
    expect(page).not.toContain('\n## ');
    expect(page).not.toContain('classDef');
  });

  it('lists events that change no state, and events that have no effect', () => {
    const page = chartToMarkdown(
      createMachine({ id: 'bare', initial: 'a', states: { a: { on: { note: { actions: 'keepIt' }, hush: {} } } } }),
    );
    expect(page).toContain('| note |  |  | keep it |\n| hush |  |  | nothing |');
  });
});
