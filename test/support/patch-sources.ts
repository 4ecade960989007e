import { registerHooks } from 'node:module';
import type { Patch } from './builds.ts';

/*
 * Loaded before a service (`--import`): replaces parts of its sources while they are loaded, so that it is a later build.
 * `SOURCE_PATCHES` has the patches as JSON. The service does not start if one of them does not match.
 */

const patches: Patch[] = JSON.parse(process.env.SOURCE_PATCHES ?? '[]');

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const own = patches.filter(({ file }) => url.endsWith(`/src/${file}`));
    if (own.length === 0) return loaded;
    let source = String(loaded.source);
    for (const { file, from, to } of own) {
      if (!source.includes(from)) throw new Error(`${file} has no '${from}'`);
      source = source.replace(from, to);
    }
    return { ...loaded, source };
  },
});
