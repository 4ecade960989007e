import { createHash } from 'node:crypto';

/**
 * Seeded random numbers (xoshiro128**). Each concern has an independent stream, so that the draws of one do not change
 * those of the others: a run with one part of the workload disabled stays close to the full run.
 */
export class Random {
  readonly #seed: string;
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(seed: string) {
    this.#seed = seed;
    const words = createHash('sha256').update(seed).digest();
    this.#a = words.readUInt32LE(0);
    this.#b = words.readUInt32LE(4);
    this.#c = words.readUInt32LE(8);
    this.#d = words.readUInt32LE(12) | 1;
  }

  /** An independent stream, the same for the same seed and name. */
  fork(name: string): Random {
    return new Random(`${this.#seed}/${name}`);
  }

  u32(): number {
    const five = Math.imul(this.#b, 5);
    const result = Math.imul((five << 7) | (five >>> 25), 9);
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result >>> 0;
  }

  /** From 0 up to, but not including, `below`. */
  float(below = 1): number {
    return (this.u32() / 2 ** 32) * below;
  }

  between(from: number, to: number): number {
    return from + this.float(to - from);
  }

  int(below: number): number {
    return Math.floor(this.float(below));
  }

  chance(probability: number): boolean {
    return this.float() < probability;
  }

  pick<T>(all: readonly T[]): T {
    if (all.length === 0) throw new Error('nothing to pick from');
    return all[this.int(all.length)] as T;
  }

  /** A shuffled copy (Fisher–Yates). */
  shuffled<T>(all: readonly T[]): T[] {
    const copy = [...all];
    for (let last = copy.length - 1; last > 0; last--) {
      const other = this.int(last + 1);
      [copy[last], copy[other]] = [copy[other] as T, copy[last] as T];
    }
    return copy;
  }

  fill(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at++) bytes[at] = this.u32() & 0xff;
  }
}
