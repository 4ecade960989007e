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
import type { Connection } from './connection.ts';
import type { Context } from './context.ts';
import { json } from './scalars.ts';

// Most lists are asked for plain members of their entries alone. The library resolves each member of each entry by itself, with all
// that any resolver could want to know; here such a list is written by one function. The document is rewritten for that, once: its
// `nodes` become a field that only the schema has which is executed, never the one that is shown.

/** The field in the place of `nodes`. */
const LEAF_NODES = 'plainNodes';

/** What a field says of itself, in its `extensions`, that shows a member of its thing as it is. */
export interface LeafExtension {
  /** The member, by the name that the operation gives it. */
  plain?: string;
}

interface Column {
  key: string;
  member: string;
  serialize: ((value: unknown) => unknown) | null;
  /** Of a member that is always there, how it is called. */
  nonNullField: string | null;
}

const columnsByNode = new WeakMap<FieldNode, readonly Column[]>();

export const leafNodes: GraphQLFieldConfig<Connection, Context> = {
  type: new GraphQLNonNull(json),
  resolve({ nodes }, _, __, { fieldNodes: [node] }) {
    const columns = node === undefined ? undefined : columnsByNode.get(node);
    if (columns === undefined) throw new Error('nobody said which members are wanted');
    return nodes.map((entry) => projectRow(entry as Readonly<Record<string, unknown>>, columns));
  },
};

function projectRow(entry: Readonly<Record<string, unknown>>, columns: readonly Column[]): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const { key, member, serialize, nonNullField } of columns) {
    const value = entry[member] ?? null;
    if (value === null && nonNullField !== null) throw new Error(`there is no ${nonNullField}`);
    row[key] = value === null || serialize === null ? value : serialize(value);
  }
  return row;
}

/** Adds the field to a schema's connections. */
export const withLeafNodes = (fields: Readonly<Record<string, GraphQLFieldConfig<Connection, Context>>>) => ({
  ...fields,
  [LEAF_NODES]: leafNodes,
});

/** A valid document as it is executed. One with fragments, or that names something twice, stays as it is. */
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
    // An object's prototype is no member of it.
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
    const plain: FieldNode = {
      ...rest,
      alias: { kind: Kind.NAME, value: responseKey(selection) },
      name: { kind: Kind.NAME, value: LEAF_NODES },
    };
    columnsByNode.set(plain, columns);
    return plain;
  });
  return { ...set, selections };
}

/** Null where something is asked for that is no plain member. */
function leafColumns({ selections }: SelectionSetNode, type: GraphQLObjectType): Column[] | null {
  const columns: Column[] = [];
  for (const selection of selections) {
    if (selection.kind !== Kind.FIELD || (selection.directives?.length ?? 0) > 0) return null;
    const field = type.getFields()[selection.name.value];
    const { plain } = (field?.extensions ?? {}) as LeafExtension;
    if (field === undefined || plain === undefined) return null;
    const leaf = getNullableType(field.type);
    if (!isLeafType(leaf)) return null;
    const asIs = !isEnumType(leaf) && ['String', 'Boolean', 'DateTime', 'JSON', 'JSONObject'].includes(leaf.name);
    columns.push({
      key: responseKey(selection),
      member: plain,
      serialize: asIs ? null : (value) => leaf.coerceOutputValue(value),
      nonNullField: isNonNullType(field.type) ? `${type.name}.${field.name}` : null,
    });
  }
  return columns;
}
