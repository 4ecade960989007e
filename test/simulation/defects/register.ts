import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Defect, defects } from './list.ts';

// Loaded before the simulation (`node --import`): applies one defect to sources as they are loaded, without changing
// files.

const named = process.env.SIMULATION_DEFECT ?? '';
const defect: Defect | undefined = defects[named];
if (defect === undefined) throw new Error(`there is no defect "${named}"`);
const root = fileURLToPath(new URL('../../../', import.meta.url));

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    const changes = defect.changes.filter(({ file }) => url.startsWith('file:') && fileURLToPath(url) === root + file);
    if (changes.length === 0) return loaded;
    let source = String(loaded.source);
    for (const { file, from, to } of changes) {
      if (source.split(from).length !== 2) throw new Error(`${file} does not hold once: ${from}`);
      source = source.replace(from, () => to);
    }
    return { ...loaded, source };
  },
});
