// The exports of '@asyncapi/parser' that AsyncAPI's React component uses; see vite.config.ts.
export { isAsyncAPIDocument, isOldAsyncAPIDocument, toAsyncAPIDocument } from '@asyncapi/parser/esm/document.js';
export { SchemaV2 } from '@asyncapi/parser/esm/models/index.js';
export { unstringify } from '@asyncapi/parser/esm/stringify.js';
