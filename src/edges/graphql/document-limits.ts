import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
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
  /** Points: see `costOf` in `operation-cost.ts`. */
  cost: 10_000,
} as const;

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

export const isIntrospectionField = ({ name }: FieldNode): boolean =>
  name.value === '__schema' || name.value === '__type';

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
  const depthOfFragment = new Map<string, number>();
  const depth = ({ selections }: SelectionSetNode): number =>
    selections.reduce((deepest, selection) => {
      if (selection.kind === Kind.FIELD) {
        if (selection.name.value.startsWith('__')) return deepest;
        return Math.max(deepest, 1 + (selection.selectionSet ? depth(selection.selectionSet) : 0));
      }
      if (selection.kind === Kind.INLINE_FRAGMENT) return Math.max(deepest, depth(selection.selectionSet));
      const name = selection.name.value;
      const fragment = fragments.get(name);
      const inside = depthOfFragment.get(name) ?? (fragment === undefined ? 0 : depth(fragment.selectionSet));
      depthOfFragment.set(name, inside);
      return Math.max(deepest, inside);
    }, 0);
  return depth(operation.selectionSet);
}
