// Stands in for the parts of AsyncAPI's parser that no page calls; see vite.config.ts.
export const Parser = null;
export const Document = null;
export const DiagnosticSeverity = {};
// biome-ignore lint/style/noDefaultExport: '@asyncapi/specs' has a default export
export default { schemas: {} };
