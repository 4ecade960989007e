const MADE = /\bnew (Map|Set|LRUCache)\b/g;
/** A class member that is initialized with an empty array. */
const ARRAY_MEMBER = /^(\s+(?:(?:private|protected|readonly|static) |#)[^()=]*=) \[\];$/;
/** A constant or variable of a module that is initialized with an empty array. */
const MODULE_ARRAY = /^((?:export )?(?:const|let) [^()=]*=) \[\];$/;

/**
 * Instruments the source of a module so that each collection it creates is registered under `file:line`. Keeps line
 * numbers.
 */
export const remembered = (source: string, file: string): string =>
  source
    .split('\n')
    .map((line, at) => {
      const site = `'${file}:${at + 1}'`;
      return line
        .replace(MADE, (_, type: string) => `new (simulationCollections.remembering(${site}, ${type}))`)
        .replace(ARRAY_MEMBER, (_, member: string) => `${member} simulationCollections.rememberedArray(${site});`)
        .replace(MODULE_ARRAY, (_, name: string) => `${name} simulationCollections.rememberedArray(${site});`);
    })
    .join('\n');
