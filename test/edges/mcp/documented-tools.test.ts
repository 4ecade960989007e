import { readFileSync } from 'node:fs';
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { isScope } from '../../../src/domain/scopes.ts';
import { resourceKinds } from '../../../src/edges/mcp/resources.ts';
import { tools } from '../../../src/edges/mcp/tools/tool-list.ts';

const page = readFileSync(new URL('../../../docs/agents.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text]) => text as string);

describe('docs/agents.md', () => {
  it('lists exactly the tools that exist', () => {
    const names = new Set(tools.map(({ name }) => name));
    const table = page.slice(page.indexOf('| tools | the agent can |'), page.indexOf('**Resources**'));
    const listed = [...table.matchAll(/^\| ([^|]+) \|/gm)].flatMap(
      ([, cell = '']) => cell.match(/\b[a-z]+(_[a-z]+)+\b|whoami/g) ?? [],
    );
    expect(new Set(listed)).toEqual(names);
  });

  it('has client configurations that are JSON', () => {
    expect(blocks.length).toBeGreaterThan(5);
    for (const block of blocks) expect(() => JSON.parse(block)).not.toThrow();
  });

  it('names scopes, resources and protocol revisions that exist', () => {
    const scopes = [...page.matchAll(/["`]((?:read|write|execute):[\w*]+)["`]/g)].map(([, scope]) => scope as string);
    expect(scopes.length).toBeGreaterThan(4);
    for (const scope of scopes) expect(isScope(scope), scope).toBe(true);
    for (const kind of resourceKinds) expect(page).toContain(`twin://${kind}/{id}`);
    expect(page).toContain(`${SUPPORTED_PROTOCOL_VERSIONS.at(-1)} to ${SUPPORTED_PROTOCOL_VERSIONS[0]}`);
  });
});
