import { expect, it } from 'vitest';
import { remembered } from './collections/instrument.ts';

it('registers maps, sets and caches with the line that creates them', () => {
  const source = [
    'const a = new Map<string, Set<number>>();',
    'return new Set([1]);',
    'this.c = new LRUCache({ max: 5 });',
  ];
  expect(remembered(source.join('\n'), 'src/x.ts').split('\n')).toEqual([
    "const a = new (simulationCollections.remembering('src/x.ts:1', Map))<string, Set<number>>();",
    "return new (simulationCollections.remembering('src/x.ts:2', Set))([1]);",
    "this.c = new (simulationCollections.remembering('src/x.ts:3', LRUCache))({ max: 5 });",
  ]);
});

it('registers arrays that are class members, but not those of a function', () => {
  const source = [
    '  #waiting: Item[] = [];',
    '  private readonly ready: Entity[] = [];',
    '  const found: Item[] = [];',
  ];
  expect(remembered(source.join('\n'), 'src/y.ts').split('\n')).toEqual([
    "  #waiting: Item[] = simulationCollections.rememberedArray('src/y.ts:1');",
    "  private readonly ready: Entity[] = simulationCollections.rememberedArray('src/y.ts:2');",
    '  const found: Item[] = [];',
  ]);
});

it('registers arrays of modules', () => {
  const source = ['const found: Item[] = [];', 'export let open: Item[] = [];', 'const full = [1];'];
  expect(remembered(source.join('\n'), 'src/m.ts').split('\n')).toEqual([
    "const found: Item[] = simulationCollections.rememberedArray('src/m.ts:1');",
    "export let open: Item[] = simulationCollections.rememberedArray('src/m.ts:2');",
    'const full = [1];',
  ]);
});

it('does not register weak collections, which keep no object alive', () => {
  expect(remembered('const peers = new WeakMap();', 'src/z.ts')).toBe('const peers = new WeakMap();');
});
