/** What holds for every operation: the first thing that a reader of the reference sees. */
export const API_DESCRIPTION = `A multi-tenant cloud for connected devices. Every route stands under \`/v1\` and, the same, under \`/api/v1\`. What goes over
MQTT and WebSocket is in [/docs/events](/docs/events).

**Signing in.** A token (\`Authorization: Bearer …\`), an API key (the same, or \`X-API-Key\`), or a cookie session, whose changes need
\`X-CSRF-Token\`. \`x-role\` says the least role an operation needs, \`x-scope\` the scope that a key with scopes needs too. What
belongs to another tenant does not exist: 404, as for what is missing.

**Refusals** are \`application/problem+json\` (RFC 9457) with a stable \`code\`; \`errors\` names the fields. Unknown fields are refused.

**Lists** go newest first, \`limit\` (1 to 200) entries a page; \`next_cursor\` is the next page's \`cursor\`.

**Once.** A POST with an \`Idempotency-Key\` is carried out once in 24 hours; the same again gets the same answer, with
\`Idempotent-Replayed: true\`.

**Rate.** \`RateLimit\` says what is left; a 429 says in \`Retry-After\` when to ask again.`;
