import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { remembered } from './instrument.ts';
import { rememberedArray, remembering } from './registry.ts';

// Loaded before the simulation (`node --import`): registers all collections that `src` creates, `#private` ones
// included.

const root = fileURLToPath(new URL('../../../', import.meta.url));
Object.assign(globalThis, { simulationCollections: { remembering, rememberedArray } });

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const path = url.startsWith('file:') ? fileURLToPath(url) : '';
    if (!path.startsWith(`${root}src/`)) return loaded;
    return { ...loaded, source: remembered(String(loaded.source), path.slice(root.length)) };
  },
});
