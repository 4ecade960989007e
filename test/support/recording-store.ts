import type { Store } from '../../src/store/contract.ts';

/** A store that keeps the names of the calls it got, as `devices.page`. */
export function recordingStore(): { calls: string[]; around(store: Store): Store } {
  const calls: string[] = [];
  const counted = <Part extends object>(part: Part, prefix: string): Part =>
    new Proxy(part, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        const path = `${prefix}${String(name)}`;
        if (typeof value === 'object' && value !== null && prefix === '') return counted(value, `${path}.`);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]) => {
          calls.push(path);
          return value.apply(target, given);
        };
      },
    });
  return { calls, around: (store) => counted(store, '') };
}
