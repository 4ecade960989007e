import type { Store } from '../../src/store/contract.ts';

/** A store that records the names of its calls, such as `devices.list`. */
export function recordingStore(): { calls: string[]; around(store: Store): Store } {
  const calls: string[] = [];
  const recorded = <Part extends object>(part: Part, prefix: string): Part =>
    new Proxy(part, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        const path = `${prefix}${String(name)}`;
        if (typeof value === 'object' && value !== null && prefix === '') return recorded(value, `${path}.`);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          calls.push(path);
          return value.apply(target, args);
        };
      },
    });
  return { calls, around: (store) => recorded(store, '') };
}
