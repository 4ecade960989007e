import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  acceptSequence,
  emptyWindow,
  judgeSequence,
  type ReplayWindow,
  type SequenceVerdict,
  WINDOW_SIZE,
  windowFromJson,
  windowToJson,
} from '../../src/domain/replay-window.ts';
import { expectReached, fc, runs } from '../support/properties.ts';

const mark = (id: string) => createHash('sha256').update(id).digest('hex').slice(0, 16);

/** A naive implementation as the reference: a map of all numbers ever used. */
class Model {
  highest = 0;
  used = new Map<number, string>();

  judge(sequence: number, id: string): SequenceVerdict {
    if (sequence < 1 || sequence <= this.highest - WINDOW_SIZE) return 'too_old';
    const before = this.used.get(sequence);
    if (before === undefined) return 'fresh';
    return before === mark(id) ? 'repeat' : 'reused';
  }

  accept(sequence: number, id: string): void {
    this.used.set(sequence, mark(id));
    this.highest = Math.max(this.highest, sequence);
  }
}

const accepted = (...numbers: number[]) =>
  numbers.reduce((window, number) => acceptSequence(window, number, `id-${number}`), emptyWindow());

describe('the replay window', () => {
  it('starts at 1: a lower number is never accepted', () => {
    expect(emptyWindow()).toMatchObject({ highest: 0 });
    expect(judgeSequence(emptyWindow(), 1, 'a')).toBe('fresh');
    expect(judgeSequence(emptyWindow(), 0, 'a')).toBe('too_old');
    expect(judgeSequence(accepted(1), 0, 'a')).toBe('too_old');
    expect(judgeSequence(accepted(1), -1, 'a')).toBe('too_old');
  });

  it('distinguishes a repeat from another message with the same number', () => {
    const window = accepted(7);
    expect(judgeSequence(window, 7, 'id-7')).toBe('repeat');
    expect(judgeSequence(window, 7, 'id-8')).toBe('reused');
    expect(judgeSequence(window, 6, 'id-7')).toBe('fresh');
    expect(judgeSequence(window, 8, 'id-7')).toBe('fresh');
  });

  it('covers 64 numbers, including the highest', () => {
    const window = accepted(100);
    expect(judgeSequence(window, 37, 'a')).toBe('fresh');
    expect(judgeSequence(window, 36, 'a')).toBe('too_old');
    const filled = acceptSequence(window, 37, 'a');
    expect(judgeSequence(filled, 37, 'a')).toBe('repeat');
    expect(judgeSequence(acceptSequence(filled, 101, 'b'), 37, 'a')).toBe('too_old');
  });

  it.each([63, 64, 65, 1_000_000])('after a jump of %i keeps the numbers inside the window', (jump) => {
    const window = acceptSequence(accepted(1, 2, 3), 3 + jump, 'far');
    expect(window.highest).toBe(3 + jump);
    expect(judgeSequence(window, 3, 'id-3')).toBe(jump < WINDOW_SIZE ? 'repeat' : 'too_old');
    expect(judgeSequence(window, 2, 'id-2')).toBe('too_old');
    expect(judgeSequence(window, 2 + jump, 'x')).toBe('fresh');
    expect(judgeSequence(window, 3 + jump, 'far')).toBe('repeat');
    expect(window.slots.length).toBeLessThanOrEqual(WINDOW_SIZE * 8);
  });

  it('holds the largest exact number', () => {
    const window = accepted(Number.MAX_SAFE_INTEGER);
    expect(judgeSequence(window, Number.MAX_SAFE_INTEGER, 'x')).toBe('reused');
    expect(judgeSequence(window, Number.MAX_SAFE_INTEGER - 1, 'x')).toBe('fresh');
  });

  it('stores the first 8 bytes of SHA-256 of the message id, the highest number first', () => {
    const window = acceptSequence(acceptSequence(emptyWindow(), 4, 'four'), 6, 'six');
    expect(Buffer.from(window.slots, 'latin1').toString('hex')).toBe(`${mark('six')}${'0'.repeat(16)}${mark('four')}`);
  });

  it('allocates only its used part', () => {
    expect(emptyWindow().slots).toHaveLength(0);
    expect(accepted(1_000).slots).toHaveLength(8);
    expect(accepted(1_000, 999).slots).toHaveLength(16);
  });

  it('keeps numbers that left the window for a limited time', () => {
    const lengths: number[] = [];
    for (let window = emptyWindow(), n = 1; n <= 400; n++) {
      window = acceptSequence(window, n, `id-${n}`);
      lengths.push(window.slots.length);
      expect(judgeSequence(window, n - WINDOW_SIZE, `id-${n - WINDOW_SIZE}`)).toBe('too_old');
      if (n >= WINDOW_SIZE)
        expect(judgeSequence(window, n - WINDOW_SIZE + 1, `id-${n - WINDOW_SIZE + 1}`)).toBe('repeat');
    }
    expect(Math.max(...lengths)).toBe(576);
    expect(lengths.slice(72)).toContain(512);
  });

  it('is immutable', () => {
    const before = accepted(5, 3);
    const copy = { ...before };
    acceptSequence(before, 4, 'a');
    acceptSequence(before, 6, 'b');
    acceptSequence(before, 900, 'c');
    expect(before).toEqual(copy);
  });

  it('behaves as the simple model, also when stored and loaded', () => {
    const step = fc.record({
      sequence: fc.oneof(fc.integer({ min: -2, max: 200 }), fc.integer({ min: 0, max: 10_000 })),
      id: fc.constantFrom('a', 'b', 'c'),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), fc.nat({ max: 5 }), (steps, storeEvery) => {
        const model = new Model();
        let window: ReplayWindow = emptyWindow();
        for (const [i, { sequence, id }] of steps.entries()) {
          const verdict = judgeSequence(window, sequence, id);
          expect(verdict).toBe(model.judge(sequence, id));
          if (verdict !== 'fresh') continue;
          window = acceptSequence(window, sequence, id);
          model.accept(sequence, id);
          expect(window.highest).toBe(model.highest);
          if (i % 6 === storeEvery) {
            const back = windowFromJson(JSON.parse(JSON.stringify(windowToJson(window))));
            expect(back).toEqual(window);
            window = back;
          }
        }
      }),
      runs(100),
    );
  });

  it('behaves as the simple model where it stores more than it reads', () => {
    const step = fc.record({
      // Long consecutive runs, with gaps and late numbers between them.
      run: fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 60, max: 120 })),
      rise: fc.oneof(fc.integer({ min: -66, max: 3 }), fc.integer({ min: -3, max: 70 })),
      id: fc.constantFrom('a', 'b'),
      isStored: fc.boolean(),
    });
    let slack = 0;
    fc.assert(
      fc.property(fc.array(step, { maxLength: 8 }), (steps) => {
        const model = new Model();
        let window: ReplayWindow = emptyWindow();
        const take = (sequence: number, id: string) => {
          const verdict = judgeSequence(window, sequence, id);
          expect(verdict).toBe(model.judge(sequence, id));
          if (verdict !== 'fresh') return;
          window = acceptSequence(window, sequence, id);
          model.accept(sequence, id);
        };
        for (const { run, rise, id, isStored } of steps) {
          for (let n = 0; n < run; n++) take(window.highest + 1, id);
          take(window.highest + rise, id);
          if (window.slots.length > WINDOW_SIZE * 8) slack += 1;
          const back = windowFromJson(JSON.parse(JSON.stringify(windowToJson(window))));
          expect(windowToJson(back)).toEqual(windowToJson(window));
          for (let age = 0; age <= WINDOW_SIZE + 32; age++) {
            const sequence = window.highest - age;
            for (const judged of [window, back]) {
              expect(judgeSequence(judged, sequence, id)).toBe(model.judge(sequence, id));
            }
          }
          if (isStored) window = back;
        }
      }),
      runs(30),
    );
    expectReached(() => expect(slack).toBeGreaterThan(10));
  });

  it('accepts each number once, for every order of steps near the edge', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 140 }), { maxLength: 400 }), (sequences) => {
        const through = new Set<number>();
        let window = emptyWindow();
        for (const [i, sequence] of sequences.entries()) {
          if (judgeSequence(window, sequence, `m${i}`) !== 'fresh') continue;
          expect(through.has(sequence)).toBe(false);
          through.add(sequence);
          window = acceptSequence(window, sequence, `m${i}`);
        }
      }),
    );
  });
});

describe('a stored window', () => {
  it('is short while few numbers are used', () => {
    expect(windowToJson(emptyWindow())).toEqual({ highest: 0, slots: '' });
    expect(windowToJson(accepted(41)).slots).toHaveLength(12);
    expect(windowFromJson({ highest: 0, slots: '' })).toEqual(emptyWindow());
  });

  it('contains only the window', () => {
    const window = accepted(...Array.from({ length: 80 }, (_, i) => i + 1));
    expect(window.slots).toHaveLength(568);
    const stored = windowToJson(window);
    expect(Buffer.from(stored.slots, 'base64')).toEqual(Buffer.from(window.slots.slice(0, 512), 'latin1'));
    expect(windowFromJson(stored)).toEqual({ highest: 80, slots: window.slots.slice(0, 512) });
  });

  it('is the base64 of its bytes, for any bytes, and unchanged by reading', () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const stored = { highest: 99, slots: bytes.toString('base64') };
    const window = windowFromJson(stored);
    expect(window.slots).toHaveLength(256);
    expect(windowToJson(window)).toEqual(stored);
  });

  it('written before a change decides the same afterwards', () => {
    const before = accepted(70, 69, 40);
    const stored = windowToJson(before);
    for (const number of [71, 55, 200]) acceptSequence(before, number, 'x');
    expect(windowToJson(before)).toEqual(stored);
  });

  it.each([
    { highest: -1, slots: '' },
    { highest: 1.5, slots: '' },
    { highest: Number.NaN, slots: '' },
    { highest: 2 ** 53, slots: '' },
    { highest: 9, slots: Buffer.alloc(7).toString('base64') },
    { highest: 1, slots: Buffer.alloc(16).toString('base64') },
    { highest: 999, slots: Buffer.alloc(520).toString('base64') },
  ])('with damage is rejected: %j', (stored) => {
    expect(() => windowFromJson(stored)).toThrow('stored replay window is not valid');
  });

  it('can be as long as the highest number and 64 entries', () => {
    expect(windowFromJson({ highest: 1, slots: Buffer.alloc(8, 1).toString('base64') }).slots).toHaveLength(8);
    expect(windowFromJson({ highest: 64, slots: Buffer.alloc(512, 1).toString('base64') }).slots).toHaveLength(512);
  });
});
