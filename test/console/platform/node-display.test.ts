import { describe, expect, it } from 'vitest';
import { changeOf, type ListedNode, leaseAge, memory, percentage } from '../../../console/src/platform/node-display.ts';

const node = (id: string, state: ListedNode['state']) => ({ id, state }) as ListedNode;

describe('the change that an operator can request', () => {
  it('is a drain while another node is active', () => {
    const [one, two] = [node('1', 'active'), node('2', 'active')];
    expect(changeOf(one, [one, two])).toBe('drain');
  });

  it.each(['joining', 'draining', 'stopping'] as const)('is none while the other node is %s', (state) => {
    const one = node('1', 'active');
    expect(changeOf(one, [one, node('2', state)])).toBeNull();
  });

  it('ends a drain, and is none while the node joins or stops', () => {
    const active = node('2', 'active');
    const changes = (['draining', 'joining', 'stopping'] as const).map((state) =>
      changeOf(node('1', state), [node('1', state), active]),
    );
    expect(changes).toEqual(['resume', null, null]);
  });
});

it('figures have units', () => {
  expect([percentage(0.256), percentage(1.5)]).toEqual(['26 %', '150 %']);
  expect([memory(310 * 1_048_576), memory(4_000_000_000)]).toEqual(['310 MiB', '3.7 GiB']);
  expect([leaseAge(812), leaseAge(null)]).toEqual(['0.8 s', '–']);
});
