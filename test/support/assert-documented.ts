import { expect } from 'vitest';
import { makeFastRouter } from '../../src/edges/rest/fast-router.ts';
import { buildOpenApi } from '../../src/edges/rest/openapi.ts';
import { routeGroups, routes } from '../../src/edges/rest/routes.ts';

const router = makeFastRouter(routes);

interface ResponseObject {
  $ref?: string;
  content?: Record<string, { examples?: object }>;
}
interface OpenApiDocument {
  paths: Record<string, Record<string, { responses: Record<string, ResponseObject> }>>;
  components: { responses: Record<string, ResponseObject> };
}
const document = buildOpenApi(routeGroups) as unknown as OpenApiDocument;

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
  if (found === null) return;
  const { atRoot } = found.entry;
  if (bare === path ? !atRoot : atRoot === 'only') return; // not served at this path
  const { operation, success, path: pattern } = found.entry;
  const about = `${method} ${pattern} → ${received.status}`;
  const documented = document.paths[pattern]?.[found.entry.method.toLowerCase()]?.responses[received.status];
  expect(documented, about).toBeDefined();
  if (received.headers.get('content-type') === 'application/problem+json') {
    const { code } = received.body as { code: string };
    const shared = documented?.$ref?.split('/').at(-1);
    const resolved = shared === undefined ? documented : document.components.responses[shared];
    expect(resolved?.content?.['application/problem+json']?.examples, `${about} ${code}`).toHaveProperty(code);
    return;
  }
  const schema =
    operation.responses?.[received.status]?.body ?? (received.status === success ? operation.output : null);
  expect(schema, about).not.toBeNull();
  expect(schema?.parse(received.body), about).toEqual(received.body);
}
