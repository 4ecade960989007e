/** Introduction of the OpenAPI document: what applies to every operation. */
export const API_DESCRIPTION = `A multi-tenant cloud for connected devices. Every route is available under \`/v1\` and \`/api/v1\`. The MQTT and WebSocket
messages are described in [/docs/events](/docs/events).

**Authentication.** A token (\`Authorization: Bearer …\`), an API key (the same header, or \`X-API-Key\`), or a cookie session, whose
changes also need \`X-CSRF-Token\`. \`x-role\` is the lowest role that an operation needs; \`x-scope\` is the scope that a key with scopes
also needs, and \`x-also-scope\` a second one, of what leads to commands. Resources of another tenant are answered with 404, like resources that do not exist.

**Errors** are \`application/problem+json\` (RFC 9457) with a stable \`code\`; \`errors\` lists the fields. Unknown fields are refused.

**Lists** are sorted newest first, with \`limit\` (1 to 200) entries per page. Pass \`next_cursor\` as \`cursor\` to get the next page.

**Idempotency.** A POST with an \`Idempotency-Key\` runs once within 24 hours. A repeat gets the stored response, with
\`Idempotent-Replayed: true\`.

**Paths.** The routes under \`/device\` register, command and revoke a device and change its keys; those under \`/devices\` list, show and change
devices, and let the sidecar plan for one. \`/health\` names \`build_service\` and \`cloud_editor\`, which are always \`disabled\` here.

**Rate limits.** \`RateLimit\` is the remaining quota; \`Retry-After\` of a 429 is the time to wait, in seconds.`;
