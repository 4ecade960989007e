import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Replacements in a source; `from` occurs exactly once in the file, whose path is relative to the project. */
export interface SourceChange {
  file: string;
  from: string;
  to: string;
}

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Changes sources of the project when this process loads them. The files stay as they are. */
export function applyChanges(planned: readonly SourceChange[]): void {
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      const changes = planned.filter(({ file }) => url.startsWith('file:') && fileURLToPath(url) === root + file);
      if (changes.length === 0) return loaded;
      let source = String(loaded.source);
      for (const { file, from, to } of changes) {
        if (source.split(from).length !== 2) throw new Error(`${file} does not hold once: ${from}`);
        source = source.replace(from, () => to);
      }
      return { ...loaded, source };
    },
  });
}
