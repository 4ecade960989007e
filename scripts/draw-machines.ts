import { mkdirSync, writeFileSync } from 'node:fs';
import { drawing } from '../src/machines/drawing.ts';
import { actorKinds, currentDefinition } from '../src/machines/versions.ts';

// Draws every machine into docs/machines: `npm run drawings`. A test compares what stands there.

const folder = new URL('../docs/machines/', import.meta.url);
mkdirSync(folder, { recursive: true });
for (const kind of actorKinds) writeFileSync(new URL(`${kind}.md`, folder), drawing(currentDefinition(kind).machine));
