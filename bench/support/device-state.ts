import type { JsonObject } from '../../src/domain/values.ts';

/** About 300 bytes of state in 20 keys; each report changes the counter. `of` makes the texts unique per device. */
export function deviceState(counter: number, of: string): JsonObject {
  const state: JsonObject = { counter };
  const own = of.slice(-6);
  for (let key = 1; key < 20; key += 1) {
    state[`key_${String(key).padStart(2, '0')}`] = key % 3 === 0 ? key * 1.5 : key % 7 === 0 ? true : `${own}${key}`;
  }
  return state;
}
