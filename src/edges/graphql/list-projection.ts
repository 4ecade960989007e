import {
  type DocumentNode,
  type FieldNode,
  type GraphQLFieldConfig,
  GraphQLNonNull,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isEnumType,
  isLeafType,
  isNonNullType,
  isObjectType,
  Kind,
  type SelectionSetNode,
} from 'graphql';
import type { GraphqlContext } from './graphql-context.ts';
import type { RelayConnection } from './relay-connection.ts';
import { jsonScalar } from './scalars.ts';

// Most queries select only leaf members of a list's entries. The library resolves each member of each entry separately, with a
// full resolver info. Here one function projects the whole list: the document is rewritten once, so that `nodes` becomes a field
// that exists only in the executed schema, never in the public one.

/** The field that replaces `nodes`. */
const LEAF_NODES = 'plainNodes';

/** `extensions` of a field that returns a member of its source without a resolver. */
export interface LeafExtension {
  /** The member's wire name. */
  leafMember?: string;
}

interface Column {
  key: string;
  member: string;
  serialize: ((value: unknown) => unknown) | null;
  /** `Type.field` for error messages, if the field is non-null. */
  nonNullField: string | null;
}

const columnsByNode = new WeakMap<FieldNode, readonly Column[]>();

export const leafNodes: GraphQLFieldConfig<RelayConnection, GraphqlContext> = {
  type: new GraphQLNonNull(jsonScalar),
  resolve({ nodes }, _, __, { fieldNodes: [node] }) {
    const columns = node === undefined ? undefined : columnsByNode.get(node);
    if (columns === undefined) throw new Error(`${LEAF_NODES} has no columns`);
    return nodes.map((entry) => projectRow(entry as Readonly<Record<string, unknown>>, columns));
  },
};

function projectRow(entry: Readonly<Record<string, unknown>>, columns: readonly Column[]): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const { key, member, serialize, nonNullField } of columns) {
    const value = entry[member] ?? null;
    if (value === null && nonNullField !== null) throw new Error(`non-null field ${nonNullField} is null`);
    row[key] = value === null || serialize === null ? value : serialize(value);
  }
  return row;
}

/** Adds the field to a schema's connections. */
export const withLeafNodes = (
  fields: Readonly<Record<string, GraphQLFieldConfig<RelayConnection, GraphqlContext>>>,
) => ({
  ...fields,
  [LEAF_NODES]: leafNodes,
});

/** Rewrites a valid document for execution. A document with fragments or repeated response keys is returned unchanged. */
export function rewriteDocument(document: DocumentNode, schema: GraphQLSchema): DocumentNode {
  const definitions = document.definitions.map((definition) => {
    if (definition.kind !== Kind.OPERATION_DEFINITION || !isRewritable(definition.selectionSet)) return null;
    const root = schema.getRootType(definition.operation);
    return root ? { ...definition, selectionSet: rewriteSelections(definition.selectionSet, root) } : null;
  });
  return definitions.every((one) => one !== null) ? { ...document, definitions } : document;
}

const responseKey = ({ alias, name }: FieldNode): string => (alias ?? name).value;

function isRewritable({ selections }: SelectionSetNode): boolean {
  const keys = new Set<string>();
  return selections.every((selection) => {
    // Assigning `__proto__` would set the row's prototype.
    if (selection.kind !== Kind.FIELD || keys.has(responseKey(selection)) || responseKey(selection) === '__proto__')
      return false;
    keys.add(responseKey(selection));
    return selection.selectionSet === undefined || isRewritable(selection.selectionSet);
  });
}

function rewriteSelections(set: SelectionSetNode, type: GraphQLObjectType): SelectionSetNode {
  const fields = type.getFields();
  const selections = set.selections.map((selection) => {
    if (selection.kind !== Kind.FIELD || selection.selectionSet === undefined) return selection;
    const field = fields[selection.name.value];
    const inside = field === undefined ? undefined : getNamedType(field.type);
    if (!isObjectType(inside)) return selection;
    const columns =
      selection.name.value === 'nodes' && LEAF_NODES in fields ? leafColumns(selection.selectionSet, inside) : null;
    if (columns === null) return { ...selection, selectionSet: rewriteSelections(selection.selectionSet, inside) };
    const { selectionSet: _, ...rest } = selection;
    const leafNode: FieldNode = {
      ...rest,
      alias: { kind: Kind.NAME, value: responseKey(selection) },
      name: { kind: Kind.NAME, value: LEAF_NODES },
    };
    columnsByNode.set(leafNode, columns);
    return leafNode;
  });
  return { ...set, selections };
}

/** Null if the selection contains anything else than leaf members. */
function leafColumns({ selections }: SelectionSetNode, type: GraphQLObjectType): Column[] | null {
  const columns: Column[] = [];
  for (const selection of selections) {
    if (selection.kind !== Kind.FIELD || (selection.directives?.length ?? 0) > 0) return null;
    const field = type.getFields()[selection.name.value];
    const { leafMember } = (field?.extensions ?? {}) as LeafExtension;
    if (field === undefined || leafMember === undefined) return null;
    const leaf = getNullableType(field.type);
    if (!isLeafType(leaf)) return null;
    const asIs = !isEnumType(leaf) && ['String', 'Boolean', 'DateTime', 'JSON', 'JSONObject'].includes(leaf.name);
    columns.push({
      key: responseKey(selection),
      member: leafMember,
      serialize: asIs ? null : (value) => leaf.coerceOutputValue(value),
      nonNullField: isNonNullType(field.type) ? `${type.name}.${field.name}` : null,
    });
  }
  return columns;
}
