const MADE = /\bnew (Map|Set|LRUCache)\b/g;
/** A member of a class that begins as an empty array. */
const ARRAY_MEMBER = /^(\s+(?:(?:private|protected|readonly|static) |#)[^()=]*=) \[\];$/;
/** A constant or variable of a module that begins as an empty array. */
const MODULE_ARRAY = /^((?:export )?(?:const|let) [^()=]*=) \[\];$/;

/** The source of a module with each collection that it makes remembered under `file:line`. Lines stay where they are. */
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
