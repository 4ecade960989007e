import { beforeEach, describe, expect, it } from 'vitest';
import { IdleMemory } from '../../src/cli/idle-memory.ts';

const MIB = 2 ** 20;

describe('the memory of an idle process', () => {
  let now = 0;
  let cpuMs = 0;
  let unusedBytes = 0;
  let scavenges = 0;
  let memory: IdleMemory;

  /** `count` checks, 5 s apart, with that share of a core used in between. */
  function check(count: number, share: number): void {
    for (let n = 0; n < count; n += 1) {
      now += 5_000;
      cpuMs += share * 5_000;
      memory.check();
    }
  }

  beforeEach(() => {
    now = 0;
    cpuMs = 0;
    unusedBytes = 200 * MIB;
    scavenges = 0;
    memory = new IdleMemory({
      cpuMs: () => cpuMs,
      now: () => now,
      unusedBytes: () => unusedBytes,
      scavenge: () => {
        scavenges += 1;
      },
    });
  });

  it('is collected after 20 s without load', () => {
    check(3, 0.02);
    expect(scavenges).toBe(0);
    check(1, 0.02);
    expect(scavenges).toBe(1);
  });

  it('is collected every 20 s until V8 has returned it, and again when it has grown', () => {
    check(12, 0.02);
    expect(scavenges).toBe(3);
    unusedBytes = 80 * MIB;
    check(100, 0.02);
    expect(scavenges).toBe(3);
    unusedBytes = 200 * MIB;
    check(4, 0.02);
    expect(scavenges).toBe(4);
  });

  it('is not collected under load, however much is unused', () => {
    check(100, 0.2);
    expect(scavenges).toBe(0);
  });

  it('is not collected while periods without load are short', () => {
    for (let n = 0; n < 10; n += 1) {
      check(3, 0.02);
      check(1, 0.5);
    }
    expect(scavenges).toBe(0);
  });
});
