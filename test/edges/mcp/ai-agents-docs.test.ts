import { readFileSync } from 'node:fs';
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { isScope } from '../../../src/domain/scopes.ts';
import { nextSteps } from '../../../src/edges/mcp/next-steps.ts';
import { resourceKinds } from '../../../src/edges/mcp/resources.ts';
import { tools } from '../../../src/edges/mcp/tools/tool-list.ts';

const page = readFileSync(new URL('../../../docs/ai-agents.md', import.meta.url), 'utf8');
const blocks = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text]) => text as string);

describe('docs/ai-agents.md', () => {
  it('tells of every tool, and of none that there is not', () => {
    const names = new Set(tools.map(({ name }) => name));
    const table = page.slice(page.indexOf('| tools | can |'), page.indexOf('**A critical action'));
    const told = [...table.matchAll(/^\| ([^|]+) \|/gm)].flatMap(
      ([, cell = '']) => cell.match(/\b[a-z]+(_[a-z]+)+\b|whoami/g) ?? [],
    );
    expect(new Set(told)).toEqual(names);
  });

  it('has snippets that are JSON', () => {
    expect(blocks.length).toBeGreaterThan(10);
    for (const block of blocks) expect(() => JSON.parse(block)).not.toThrow();
  });

  it('calls tools in its conversation as they are called, and shows what they answer', () => {
    const parsed = blocks.map((block) => JSON.parse(block));
    const calls = parsed.filter((one) => one.arguments !== undefined);
    for (const { name, arguments: given } of calls) {
      const schema = tools.find((tool) => tool.name === name)?.inputSchema;
      expect(Object.keys(schema?.properties as object)).toEqual(expect.arrayContaining(Object.keys(given)));
      expect(Object.keys(given)).toEqual(expect.arrayContaining((schema?.required as string[] | undefined) ?? []));
    }
    const refusal = parsed.find((one) => one.isError)._meta['twinkeep/refusal'];
    expect(refusal.next).toBe(nextSteps.ACTION_NOT_IN_MANIFEST);
  });

  it('names scopes, resources and revisions that there are', () => {
    const scopes = [...page.matchAll(/["`]((?:read|write|execute):[\w*]+)["`]/g)].map(([, scope]) => scope as string);
    expect(scopes.length).toBeGreaterThan(4);
    for (const scope of scopes) expect(isScope(scope), scope).toBe(true);
    for (const kind of resourceKinds) expect(page).toContain(`twin://${kind}/{id}`);
    expect(page).toContain(`${SUPPORTED_PROTOCOL_VERSIONS.at(-1)} to ${SUPPORTED_PROTOCOL_VERSIONS[0]}`);
  });
});
