import { mkdirSync, writeFileSync } from 'node:fs';
import { chartToMarkdown } from '../src/machines/chart-markdown.ts';
import { actorKinds } from '../src/machines/outputs.ts';
import { currentDefinition } from '../src/machines/versions.ts';

// Writes the chart of every machine to docs/machines: `npm run drawings`. A test compares the files.

const folder = new URL('../docs/machines/', import.meta.url);
mkdirSync(folder, { recursive: true });
for (const kind of actorKinds)
  writeFileSync(new URL(`${kind}.md`, folder), chartToMarkdown(currentDefinition(kind).machine));
