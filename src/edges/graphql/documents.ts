import {
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  Kind,
  type OperationDefinitionNode,
  parse,
  specifiedRules,
  validate,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import type { SizeReporter } from '../../domain/collection-sizes.ts';
import {
  checkDocumentSize,
  depthOf,
  documentLimits,
  type Fragments,
  fragmentsOf,
  hasIntrospection,
} from './document-limits.ts';
import { rewriteDocument } from './list-projection.ts';
import { costOf } from './operation-cost.ts';

/** A document that passed all checks. */
export interface PreparedDocument {
  document: DocumentNode;
  /** The rewritten document, and the schema that it is executed against. */
  executed: { schema: GraphQLSchema; document: DocumentNode };
  operation: OperationDefinitionNode;
  /** It selects an introspection field. */
  introspects: boolean;
}

/** A document that failed a check. */
export interface InvalidDocument {
  errors: readonly GraphQLError[];
  /** It exceeds a limit: answered 400, whatever media type is accepted (contract §2). */
  excessive: boolean;
}

export type PrepareDocument = (params: {
  query: string;
  operationName: string | null;
  variables: Readonly<Record<string, unknown>>;
}) => PreparedDocument | InvalidDocument;

/** Parses and checks documents, with an LRU cache of recent ones. */
export interface DocumentCache extends SizeReporter {
  prepare: PrepareDocument;
}

interface CachedDocument {
  document: DocumentNode;
  executed: PreparedDocument['executed'];
  fragments: Fragments;
  introspects: boolean;
  /** By operation. */
  depths: ReadonlyMap<OperationDefinitionNode, number>;
}

/** The schema is fixed, so a document that was valid once stays valid. */
const MAX_CACHED_DOCUMENTS = 500;
const MAX_CACHED_LENGTH = 16 * 1024;
/** Characters of all cached documents: parsed, a document takes about 100 times its text, and any client can send one. */
const MAX_CACHED_CHARACTERS = 256 * 1024;

export function makeDocumentCache(
  /** Returns the public schema, which documents are validated against, and the executed one: the same ones every time. */
  getSchemas: () => readonly [GraphQLSchema, GraphQLSchema],
  { hideSuggestions }: { hideSuggestions: boolean },
): DocumentCache {
  const cache = new LRUCache<string, CachedDocument>({
    max: MAX_CACHED_DOCUMENTS,
    maxSize: MAX_CACHED_CHARACTERS,
    sizeCalculation: (_, query) => query.length,
  });

  function parseAndCheck(query: string): CachedDocument | InvalidDocument {
    const cached = cache.get(query);
    if (cached !== undefined) return cached;
    const document = parseDocument(query);
    if ('errors' in document) return document;
    const excess = checkDocumentSize(document);
    if (excess !== null) return rejectTooComplex(excess);
    const [schema, executedSchema] = getSchemas();
    const errors = validate(schema, document, specifiedRules, { hideSuggestions });
    if (errors.length > 0) return { errors, excessive: false };
    const fragments = fragmentsOf(document);
    const operations = document.definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);
    const introspects = hasIntrospection(document);
    const checked = {
      document,
      executed: introspects
        ? { schema, document }
        : { schema: executedSchema, document: rewriteDocument(document, executedSchema) },
      fragments,
      introspects,
      depths: new Map(operations.map((one) => [one, depthOf(one, fragments)])),
    };
    if (query.length <= MAX_CACHED_LENGTH) cache.set(query, checked);
    return checked;
  }

  const prepare: PrepareDocument = ({ query, operationName, variables }) => {
    const checked = parseAndCheck(query);
    if ('errors' in checked) return checked;
    const operation = findOperation(checked, operationName);
    if (operation === null) return rejectDocument('operationName must name one of the operations in the document.');
    const depth = checked.depths.get(operation) ?? 0;
    if (depth > documentLimits.depth)
      return rejectTooComplex(`An operation can nest fields ${documentLimits.depth} deep; this one has ${depth}.`);
    const [schema] = getSchemas();
    const cost = costOf(operation, { schema, fragments: checked.fragments, variables });
    if (cost > documentLimits.cost)
      return rejectTooComplex(`An operation can cost ${documentLimits.cost} points; this one costs ${cost}.`);
    return { document: checked.document, executed: checked.executed, operation, introspects: checked.introspects };
  };
  return { prepare, sizes: () => ({ graphql_documents: cache.size }) };
}

function parseDocument(query: string): DocumentNode | InvalidDocument {
  try {
    return parse(query, { maxTokens: documentLimits.tokens });
  } catch (thrown) {
    if (thrown instanceof GraphQLError) {
      return { errors: [thrown], excessive: /tokens\. Parsing aborted/.test(thrown.message) };
    }
    // The parser is recursive: deeply nested brackets overflow the stack.
    if (thrown instanceof RangeError) return rejectTooComplex('The document is nested too deeply.');
    throw thrown;
  }
}

function findOperation({ depths }: CachedDocument, name: string | null): OperationDefinitionNode | null {
  const operations = [...depths.keys()];
  if (name === null) return operations.length === 1 ? (operations[0] ?? null) : null;
  return operations.find((one) => one.name?.value === name) ?? null;
}

const rejectDocument = (message: string): InvalidDocument => ({
  errors: [new GraphQLError(message)],
  excessive: false,
});

const rejectTooComplex = (message: string): InvalidDocument => ({
  errors: [new GraphQLError(message)],
  excessive: true,
});
