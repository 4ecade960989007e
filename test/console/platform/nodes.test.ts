import { QueryClientProvider } from '@tanstack/react-query';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';
import { makeQueryClient } from '../../../console/src/api/queries.ts';
import type { NodesBody } from '../../../console/src/platform/node-display.ts';
import { NodesPage } from '../../../console/src/platform/nodes.tsx';

const load = {
  ...{ live_actors: 61, device_sessions: 42, cpu_share: 0.25, heap_bytes: 3e8, rss_bytes: 4e8, event_loop_delay_ms: 2 },
};
const node = (number: number, more: Partial<NodesBody['nodes'][number]> = {}): NodesBody['nodes'][number] => ({
  ...{ id: `id-${number}`, number, address: `node-${number}:8080`, link: null, build: '1.2.3', state: 'active' },
  ...{ started_at: '2026-03-01T12:00:00.000Z', shards: 128, tenants: 5, devices: 70, lease_age_ms: 900, load },
  ...{ shards_opened: 130, shards_handed_over: 2, schema_level: 23, data_level: 1, ...more },
});

/** The text of each cell, row by row. */
function rowsOf(html: string): string[][] {
  return [...html.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<t[dh][^>]*>(.*?)<\/t[dh]>/gs)].map(([, cell = '']) => cell.replace(/<[^>]*>/g, '')),
  );
}

function render(body?: NodesBody): string {
  const queries = makeQueryClient();
  if (body !== undefined) queries.setQueryData(['/v1/admin/nodes'], body);
  const html = renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, createElement(NodesPage)));
  queries.clear();
  return html;
}

it('the page of nodes shows each node with its load, and what can be changed', () => {
  const drained = node(2, { state: 'draining', shards: 0, load: null, lease_age_ms: null, shards_opened: null });
  const html = render({ nodes: [node(1), drained, node(3)], shards_without_owner: 0, shards_unreadable: 0 });
  const [heads, ...rows] = rowsOf(html);
  expect(heads).toHaveLength(14);
  expect(rows.map((cells) => cells.slice(0, 12))).toEqual([
    [
      ...['1 node-1:8080 version 1.2.3', 'active', '128', '5', '70', '42', '61', '25 %', '381 MiB', '2 ms', '0.9 s'],
      '130 opened\n2 handed over',
    ],
    ['2 node-2:8080 version 1.2.3', 'draining', '0', '5', '70', '–', '–', '–', '–', '–', '–', '–'],
    expect.arrayContaining(['3 node-3:8080 version 1.2.3', 'active']),
  ]);
  expect(rows.map((cells) => cells.at(-1))).toEqual(['Drain …', 'Resume …', 'Drain …']);
  expect(html).toContain('aria-label="Drain … node 1"');
  expect(html).not.toContain('without an owner');
});

it('the page of nodes warns of shards without an owner, and offers no drain of the only node', () => {
  const html = render({ nodes: [node(1)], shards_without_owner: 3, shards_unreadable: 2 });
  expect(html).toContain('3 shards without an owner');
  expect(html).toContain('2 shards can only be read by a newer version');
  expect(rowsOf(html)[1]?.at(-1)).toBe('–');
});

it('the page of nodes shows that it is loading', () => {
  expect(render()).toContain('Loading nodes');
});
