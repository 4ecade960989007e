import { describe, expect, it } from 'vitest';
import { SHARD_COUNT, shardOf } from '../../src/domain/shards.ts';

describe('the shard of a tenant', () => {
  it('is the last byte of its id', () => {
    expect(shardOf('0195d9a2-7f00-7000-8000-000000000004')).toBe(4);
    expect(shardOf('0195d9a2-7f00-7000-8000-0000000000ff')).toBe(SHARD_COUNT - 1);
  });
});
