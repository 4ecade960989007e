import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLSchema,
  getNamedType,
  isInterfaceType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';

/** Limits of one document and of one operation (contract §6). */
export const documentLimits = {
  /** Lexical tokens, after which the parser stops. */
  tokens: 10_000,
  /** Nesting of fields. */
  depth: 12,
  /** In the whole document. */
  aliases: 30,
  /** In the whole document. */
  directives: 20,
  /** Fields and fragment spreads as written, before fragments are expanded. */
  selections: 500,
  /** Points: see `costOf`. */
  cost: 10_000,
} as const;

/** Entries of a page when `first` is left out, and the maximum. */
const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 200;

/** Cost of one introspection field, which may answer the whole schema. */
const INTROSPECTION_COST = 2_000;

/** Cost hints of a field, in its `extensions`. */
export interface FieldCosts {
  /** Fixed cost of selecting the field. */
  cost?: number;
  /** The field is a connection: the cost of an entry counts once per entry of the page. */
  isConnection?: true;
  /** Assumed length of a list, or the argument that limits it. */
  assumedEntries?: number | string;
}

/** Checks a parsed document against the size limits, before validation. Returns a message, or null if it is within them. */
export function checkDocumentSize(document: DocumentNode): string | null {
  const counts = { aliases: 0, directives: 0, selections: 0 };
  const pending: SelectionSetNode[] = [];
  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION && definition.kind !== Kind.FRAGMENT_DEFINITION) continue;
    counts.directives += definition.directives?.length ?? 0;
    if (definition.kind === Kind.OPERATION_DEFINITION) {
      for (const variable of definition.variableDefinitions ?? [])
        counts.directives += variable.directives?.length ?? 0;
    }
    pending.push(definition.selectionSet);
  }
  for (let set = pending.pop(); set !== undefined; set = pending.pop()) {
    for (const selection of set.selections) {
      counts.selections += 1;
      counts.directives += selection.directives?.length ?? 0;
      if (selection.kind === Kind.FIELD && selection.alias !== undefined) counts.aliases += 1;
      if (selection.kind !== Kind.FRAGMENT_SPREAD && selection.selectionSet) pending.push(selection.selectionSet);
    }
  }
  for (const what of ['aliases', 'directives', 'selections'] as const) {
    if (counts[what] > documentLimits[what])
      return `A document has at most ${documentLimits[what]} ${what}; this one has ${counts[what]}.`;
  }
  return null;
}

const isIntrospectionField = ({ name }: FieldNode): boolean => name.value === '__schema' || name.value === '__type';

/** Whether any operation of the document selects an introspection field. */
export function hasIntrospection({ definitions }: DocumentNode): boolean {
  const introspects = ({ selections }: SelectionSetNode): boolean =>
    selections.some(
      (one) =>
        (one.kind === Kind.FIELD && isIntrospectionField(one)) ||
        (one.kind !== Kind.FRAGMENT_SPREAD && one.selectionSet !== undefined && introspects(one.selectionSet)),
    );
  return definitions.some(
    (one) => 'selectionSet' in one && one.selectionSet !== undefined && introspects(one.selectionSet),
  );
}

export type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

export const fragmentsOf = ({ definitions }: DocumentNode): Fragments =>
  new Map(definitions.flatMap((one) => (one.kind === Kind.FRAGMENT_DEFINITION ? [[one.name.value, one]] : [])));

/** Nesting depth of a valid operation's fields. Introspection is not counted: a validation rule bounds it. */
export function depthOf(operation: OperationDefinitionNode, fragments: Fragments): number {
  const known = new Map<string, number>();
  const depth = ({ selections }: SelectionSetNode): number =>
    selections.reduce((deepest, selection) => {
      if (selection.kind === Kind.FIELD) {
        if (selection.name.value.startsWith('__')) return deepest;
        return Math.max(deepest, 1 + (selection.selectionSet ? depth(selection.selectionSet) : 0));
      }
      if (selection.kind === Kind.INLINE_FRAGMENT) return Math.max(deepest, depth(selection.selectionSet));
      const name = selection.name.value;
      const fragment = fragments.get(name);
      const inside = known.get(name) ?? (fragment === undefined ? 0 : depth(fragment.selectionSet));
      known.set(name, inside);
      return Math.max(deepest, inside);
    }, 0);
  return depth(operation.selectionSet);
}

/**
 * Cost of a valid operation in points: 1 for each field of each entry that it may return, plus 10 for each query field, 100
 * for each mutation field and 2,000 for each introspection field. A list without a limit counts as 10 entries.
 */
export function costOf(
  operation: OperationDefinitionNode,
  {
    schema,
    fragments,
    variables,
  }: { schema: GraphQLSchema; fragments: Fragments; variables: Readonly<Record<string, unknown>> },
): number {
  const known = new Map<string, number>();

  function cost({ selections }: SelectionSetNode, type: unknown, each: number): number {
    const fields = isObjectType(type) || isInterfaceType(type) ? type.getFields() : {};
    let sum = 0;
    for (const selection of selections) {
      if (selection.kind === Kind.FIELD) {
        const name = selection.name.value;
        sum += fieldCost(selection, Object.hasOwn(fields, name) ? fields[name] : undefined, each);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        const on = selection.typeCondition;
        sum += cost(selection.selectionSet, on === undefined ? type : schema.getType(on.name.value), each);
      } else {
        sum += fragmentCost(selection.name.value, each);
      }
    }
    return sum;
  }

  /** A fragment on the entries of a connection counts once per entry. */
  function fragmentCost(name: string, each: number): number {
    const key = `${each} ${name}`;
    const fragment = fragments.get(name);
    const found =
      known.get(key) ??
      (fragment === undefined
        ? 0
        : cost(fragment.selectionSet, schema.getType(fragment.typeCondition.name.value), each));
    known.set(key, found);
    return found;
  }

  /** `each`: the page size of the connection whose field this is, otherwise 1. */
  function fieldCost(node: FieldNode, field: GraphQLField<unknown, unknown> | undefined, each: number): number {
    if (field === undefined) return isIntrospectionField(node) ? INTROSPECTION_COST : 1;
    const costs = field.extensions as FieldCosts;
    const own = 1 + (costs.cost ?? 0);
    if (node.selectionSet === undefined) return own;
    const type = getNamedType(field.type);
    if (costs.isConnection) return own + cost(node.selectionSet, type, pageSizeOf(given(node, 'first')));
    const inEntries = each > 1 && (field.name === 'edges' || field.name === 'nodes');
    const many = inEntries
      ? each
      : typeof costs.assumedEntries === 'string'
        ? pageSizeOf(given(node, costs.assumedEntries) ?? defaultOf(field, costs.assumedEntries))
        : (costs.assumedEntries ?? 1);
    return own + many * cost(node.selectionSet, type, 1);
  }

  function given(node: FieldNode, argument: string): unknown {
    const value = node.arguments?.find(({ name }) => name.value === argument)?.value;
    if (value?.kind === Kind.INT) return Number(value.value);
    if (value?.kind !== Kind.VARIABLE) return undefined;
    const name = value.name.value;
    if (Object.hasOwn(variables, name)) return variables[name];
    const fallback = operation.variableDefinitions?.find(({ variable }) => variable.name.value === name)?.defaultValue;
    return fallback?.kind === Kind.INT ? Number(fallback.value) : undefined;
  }

  return cost(operation.selectionSet, schema.getRootType(operation.operation), 1);
}

const defaultOf = (field: GraphQLField<unknown, unknown>, argument: string): unknown =>
  field.args.find(({ name }) => name === argument)?.default?.value;

const pageSizeOf = (entries: unknown): number =>
  typeof entries === 'number' ? Math.min(MAX_PAGE_SIZE, Math.max(1, entries)) : DEFAULT_PAGE_SIZE;
