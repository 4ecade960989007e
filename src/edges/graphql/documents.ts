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
  costOf,
  depthOf,
  documentLimits,
  type Fragments,
  fragmentsOf,
  hasIntrospection,
} from './document-limits.ts';
import { rewriteDocument } from './leaf-nodes.ts';

/** A document that may be executed. */
export interface PreparedDocument {
  document: DocumentNode;
  /** What is executed in its place. */
  executed: { schema: GraphQLSchema; document: DocumentNode };
  operation: OperationDefinitionNode;
  /** It asks about the schema itself. */
  introspects: boolean;
}

/** Why it is not executed. */
export interface InvalidDocument {
  errors: readonly GraphQLError[];
  /** It is larger than any request may be: 400, whatever is accepted (contract §2). */
  excessive: boolean;
}

export type PrepareDocument = (asked: {
  query: string;
  operationName: string | null;
  variables: Readonly<Record<string, unknown>>;
}) => PreparedDocument | InvalidDocument;

/** Reads documents, and remembers those that it read lately. */
export interface DocumentCache extends SizeReporter {
  prepare: PrepareDocument;
}

interface CachedDocument {
  document: DocumentNode;
  executed: PreparedDocument['executed'];
  fragments: Fragments;
  introspects: boolean;
  /** Of each operation. */
  depths: ReadonlyMap<OperationDefinitionNode, number>;
}

/** Documents lately asked for: what was valid once is. */
const MAX_CACHED_DOCUMENTS = 500;
const MAX_CACHED_LENGTH = 16 * 1024;
/** Characters of all of them: a document takes some hundred times as many bytes as its text, and anybody may send one. */
const MAX_CACHED_CHARACTERS = 256 * 1024;

/** Parses and checks documents, each once as long as it is remembered. */
export function makeDocumentCache(
  /** The one that is shown and judged by, and the one that is executed. */
  [schema, running]: readonly [GraphQLSchema, GraphQLSchema],
  { hideSuggestions }: { hideSuggestions: boolean },
): DocumentCache {
  const remembered = new LRUCache<string, CachedDocument>({
    max: MAX_CACHED_DOCUMENTS,
    maxSize: MAX_CACHED_CHARACTERS,
    sizeCalculation: (_, query) => query.length,
  });

  function know(query: string): CachedDocument | InvalidDocument {
    const kept = remembered.get(query);
    if (kept !== undefined) return kept;
    const document = parseDocument(query);
    if ('errors' in document) return document;
    const excess = checkDocumentSize(document);
    if (excess !== null) return rejectTooComplex(excess);
    const errors = validate(schema, document, specifiedRules, { hideSuggestions });
    if (errors.length > 0) return { errors, excessive: false };
    const fragments = fragmentsOf(document);
    const operations = document.definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);
    const introspects = hasIntrospection(document);
    const known = {
      document,
      executed: introspects ? { schema, document } : { schema: running, document: rewriteDocument(document, running) },
      fragments,
      introspects,
      depths: new Map(operations.map((one) => [one, depthOf(one, fragments)])),
    };
    if (query.length <= MAX_CACHED_LENGTH) remembered.set(query, known);
    return known;
  }

  const ready: PrepareDocument = ({ query, operationName, variables }) => {
    const known = know(query);
    if ('errors' in known) return known;
    const operation = findOperation(known, operationName);
    if (operation === null) return rejectDocument('Name the operation that is meant.');
    const depth = known.depths.get(operation) ?? 0;
    if (depth > documentLimits.depth)
      return rejectTooComplex(`An operation goes ${documentLimits.depth} fields deep at most; this one ${depth}.`);
    const cost = costOf(operation, { schema, fragments: known.fragments, variables });
    if (cost > documentLimits.cost)
      return rejectTooComplex(`An operation costs ${documentLimits.cost} points at most; this one ${cost}.`);
    return { document: known.document, executed: known.executed, operation, introspects: known.introspects };
  };
  return { prepare: ready, sizes: () => ({ graphql_documents: remembered.size }) };
}

function parseDocument(query: string): DocumentNode | InvalidDocument {
  try {
    return parse(query, { maxTokens: documentLimits.tokens });
  } catch (thrown) {
    if (thrown instanceof GraphQLError) {
      return { errors: [thrown], excessive: /tokens\. Parsing aborted/.test(thrown.message) };
    }
    // So deep in brackets that the parser had no stack left.
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
  errors: [new GraphQLError(message, { extensions: { code: 'VALIDATION_FAILED', status: 400 } })],
  excessive: true,
});
