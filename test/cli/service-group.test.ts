import { describe, expect, it } from 'vitest';
import { nodeAddressOf, processCount } from '../../src/cli/service-group.ts';

describe('the address of a process of a group', () => {
  it.each([
    [null, 2, '127.0.0.1:0'],
    [{ host: '10.0.0.5', port: 0 }, 2, '10.0.0.5:0'],
    [{ host: '10.0.0.5', port: 7900 }, 0, '10.0.0.5:7900'],
    [{ host: 'node1', port: 7900 }, 2, 'node1:7902'],
    [{ host: '::1', port: 7900 }, 1, '[::1]:7901'],
  ])('of %o is, for process %i, %s', (group, index, address) => {
    expect(nodeAddressOf(group, index)).toBe(address);
  });
});

describe('the number of processes', () => {
  it('is as given, or one for each core', () => {
    expect(processCount(3)).toBe(3);
    expect(processCount('auto')).toBeGreaterThan(0);
  });
});
