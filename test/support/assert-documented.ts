import { expect } from 'vitest';
import { buildOpenApi } from '../../src/edges/rest/openapi.ts';
import { makeRouter } from '../../src/edges/rest/router.ts';
import { routeGroups, routes } from '../../src/edges/rest/routes.ts';

const router = makeRouter(routes);
// biome-ignore lint/suspicious/noExplicitAny: a document as an external client reads it
const document = buildOpenApi(routeGroups) as any;

/**
 * Fails if the API reference does not describe this response: its status, its refusal code, and each of its members.
 */
export function assertDocumented(
  method: string,
  path: string,
  received: { status: number; headers: Headers; body: unknown },
): void {
  const bare = path.replace(/^\/(api\/)?v1(?=\/)/, '');
  const found = router.find(method, bare.replace(/\?.*/, ''));
  if (found === null || !('entry' in found)) return;
  const { atRoot } = found.entry;
  if (bare === path ? !atRoot : atRoot === 'only') return; // not served at this path
  const { operation, success, path: pattern } = found.entry;
  const about = `${method} ${pattern} → ${received.status}`;
  const responses = document.paths[pattern][found.entry.method.toLowerCase()].responses;
  const documented = responses[received.status];
  expect(documented, about).toBeDefined();
  if (received.headers.get('content-type') === 'application/problem+json') {
    const { code } = received.body as { code: string };
    const resolved = documented.$ref ? document.components.responses[documented.$ref.split('/').at(-1)] : documented;
    expect(resolved.content['application/problem+json']?.examples, `${about} ${code}`).toHaveProperty(code);
    return;
  }
  const schema =
    operation.responses?.[received.status]?.body ?? (received.status === success ? operation.output : null);
  expect(schema, about).not.toBeNull();
  expect(schema?.parse(received.body), about).toEqual(received.body);
}
