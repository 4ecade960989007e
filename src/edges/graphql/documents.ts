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
import { asksForSchema, costOf, depthOf, type Fragments, fragmentsOf, limits, overloaded } from './limits.ts';
import { compiled } from './plain.ts';

/** A document that may be executed. */
export interface Readied {
  document: DocumentNode;
  /** What is executed in its place. */
  executed: { schema: GraphQLSchema; document: DocumentNode };
  operation: OperationDefinitionNode;
  /** It asks about the schema itself. */
  introspects: boolean;
}

/** Why it is not executed. */
export interface Faulty {
  errors: readonly GraphQLError[];
  /** It is larger than any request may be: 400, whatever is accepted (contract §2). */
  excessive: boolean;
}

export type Ready = (asked: {
  query: string;
  operationName: string | null;
  variables: Readonly<Record<string, unknown>>;
}) => Readied | Faulty;

/** Reads documents, and remembers those that it read lately. */
export interface Documents extends SizeReporter {
  ready: Ready;
}

interface Known {
  document: DocumentNode;
  executed: Readied['executed'];
  fragments: Fragments;
  introspects: boolean;
  /** Of each operation. */
  depths: ReadonlyMap<OperationDefinitionNode, number>;
}

/** Documents lately asked for: what was valid once is. */
const REMEMBERED = 500;
const LONGEST_REMEMBERED = 16 * 1024;
/** Characters of all of them: a document takes some hundred times as many bytes as its text, and anybody may send one. */
const REMEMBERED_CHARACTERS = 256 * 1024;

/** Parses and checks documents, each once as long as it is remembered. */
export function makeDocuments(
  /** The one that is shown and judged by, and the one that is executed. */
  [schema, running]: readonly [GraphQLSchema, GraphQLSchema],
  { hideSuggestions }: { hideSuggestions: boolean },
): Documents {
  const remembered = new LRUCache<string, Known>({
    max: REMEMBERED,
    maxSize: REMEMBERED_CHARACTERS,
    sizeCalculation: (_, query) => query.length,
  });

  function know(query: string): Known | Faulty {
    const kept = remembered.get(query);
    if (kept !== undefined) return kept;
    const document = parsed(query);
    if ('errors' in document) return document;
    const excess = overloaded(document);
    if (excess !== null) return excessive(excess);
    const errors = validate(schema, document, specifiedRules, { hideSuggestions });
    if (errors.length > 0) return { errors, excessive: false };
    const fragments = fragmentsOf(document);
    const operations = document.definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION);
    const introspects = asksForSchema(document);
    const known = {
      document,
      executed: introspects ? { schema, document } : { schema: running, document: compiled(document, running) },
      fragments,
      introspects,
      depths: new Map(operations.map((one) => [one, depthOf(one, fragments)])),
    };
    if (query.length <= LONGEST_REMEMBERED) remembered.set(query, known);
    return known;
  }

  const ready: Ready = ({ query, operationName, variables }) => {
    const known = know(query);
    if ('errors' in known) return known;
    const operation = operationIn(known, operationName);
    if (operation === null) return fault('Name the operation that is meant.');
    const depth = known.depths.get(operation) ?? 0;
    if (depth > limits.depth)
      return excessive(`An operation goes ${limits.depth} fields deep at most; this one ${depth}.`);
    const cost = costOf(operation, { schema, fragments: known.fragments, variables });
    if (cost > limits.cost) return excessive(`An operation costs ${limits.cost} points at most; this one ${cost}.`);
    return { document: known.document, executed: known.executed, operation, introspects: known.introspects };
  };
  return { ready, sizes: () => ({ graphql_documents: remembered.size }) };
}

function parsed(query: string): DocumentNode | Faulty {
  try {
    return parse(query, { maxTokens: limits.tokens });
  } catch (thrown) {
    if (thrown instanceof GraphQLError) {
      return { errors: [thrown], excessive: /tokens\. Parsing aborted/.test(thrown.message) };
    }
    // So deep in brackets that the parser had no stack left.
    if (thrown instanceof RangeError) return excessive('The document is nested too deeply.');
    throw thrown;
  }
}

function operationIn({ depths }: Known, name: string | null): OperationDefinitionNode | null {
  const operations = [...depths.keys()];
  if (name === null) return operations.length === 1 ? (operations[0] ?? null) : null;
  return operations.find((one) => one.name?.value === name) ?? null;
}

const fault = (message: string): Faulty => ({ errors: [new GraphQLError(message)], excessive: false });

const excessive = (message: string): Faulty => ({
  errors: [new GraphQLError(message, { extensions: { code: 'VALIDATION_FAILED', status: 400 } })],
  excessive: true,
});
