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
import type { Context } from './context.ts';
import type { Listed } from './listed.ts';
import { json } from './scalars.ts';

// Most lists are asked for plain members of their entries alone. The library resolves each member of each entry by itself, with all
// that any resolver could want to know; here such a list is written by one function. The document is rewritten for that, once: its
// `nodes` become a field that only the schema has which is executed, never the one that is shown.

/** The field in the place of `nodes`. */
const PLAIN_NODES = 'plainNodes';

/** What a field says of itself, in its `extensions`, that shows a member of its thing as it is. */
export interface Plain {
  /** The member, by the name that the operation gives it. */
  plain?: string;
}

interface Column {
  key: string;
  member: string;
  show: ((value: unknown) => unknown) | null;
  /** Of a member that is always there, how it is called. */
  sure: string | null;
}

const columnsOf = new WeakMap<FieldNode, readonly Column[]>();

export const plainNodes: GraphQLFieldConfig<Listed, Context> = {
  type: new GraphQLNonNull(json),
  resolve({ nodes }, _, __, { fieldNodes: [node] }) {
    const columns = node === undefined ? undefined : columnsOf.get(node);
    if (columns === undefined) throw new Error('nobody said which members are wanted');
    return nodes.map((entry) => rowOf(entry as Readonly<Record<string, unknown>>, columns));
  },
};

function rowOf(entry: Readonly<Record<string, unknown>>, columns: readonly Column[]): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const { key, member, show, sure } of columns) {
    const value = entry[member] ?? null;
    if (value === null && sure !== null) throw new Error(`there is no ${sure}`);
    row[key] = value === null || show === null ? value : show(value);
  }
  return row;
}

/** Adds the field to a schema's connections. */
export const withPlainNodes = (fields: Readonly<Record<string, GraphQLFieldConfig<Listed, Context>>>) => ({
  ...fields,
  [PLAIN_NODES]: plainNodes,
});

/** A valid document as it is executed. One with fragments, or that names something twice, stays as it is. */
export function compiled(document: DocumentNode, schema: GraphQLSchema): DocumentNode {
  const definitions = document.definitions.map((definition) => {
    if (definition.kind !== Kind.OPERATION_DEFINITION || !isSimple(definition.selectionSet)) return null;
    const root = schema.getRootType(definition.operation);
    return root ? { ...definition, selectionSet: rewritten(definition.selectionSet, root) } : null;
  });
  return definitions.every((one) => one !== null) ? { ...document, definitions } : document;
}

const keyOf = ({ alias, name }: FieldNode): string => (alias ?? name).value;

function isSimple({ selections }: SelectionSetNode): boolean {
  const keys = new Set<string>();
  return selections.every((selection) => {
    // An object's prototype is no member of it.
    if (selection.kind !== Kind.FIELD || keys.has(keyOf(selection)) || keyOf(selection) === '__proto__') return false;
    keys.add(keyOf(selection));
    return selection.selectionSet === undefined || isSimple(selection.selectionSet);
  });
}

function rewritten(set: SelectionSetNode, type: GraphQLObjectType): SelectionSetNode {
  const fields = type.getFields();
  const selections = set.selections.map((selection) => {
    if (selection.kind !== Kind.FIELD || selection.selectionSet === undefined) return selection;
    const field = fields[selection.name.value];
    const inside = field === undefined ? undefined : getNamedType(field.type);
    if (!isObjectType(inside)) return selection;
    const columns =
      selection.name.value === 'nodes' && PLAIN_NODES in fields ? columnsIn(selection.selectionSet, inside) : null;
    if (columns === null) return { ...selection, selectionSet: rewritten(selection.selectionSet, inside) };
    const { selectionSet: _, ...rest } = selection;
    const plain: FieldNode = {
      ...rest,
      alias: { kind: Kind.NAME, value: keyOf(selection) },
      name: { kind: Kind.NAME, value: PLAIN_NODES },
    };
    columnsOf.set(plain, columns);
    return plain;
  });
  return { ...set, selections };
}

/** Null where something is asked for that is no plain member. */
function columnsIn({ selections }: SelectionSetNode, type: GraphQLObjectType): Column[] | null {
  const columns: Column[] = [];
  for (const selection of selections) {
    if (selection.kind !== Kind.FIELD || (selection.directives?.length ?? 0) > 0) return null;
    const field = type.getFields()[selection.name.value];
    const { plain } = (field?.extensions ?? {}) as Plain;
    if (field === undefined || plain === undefined) return null;
    const leaf = getNullableType(field.type);
    if (!isLeafType(leaf)) return null;
    const asIs = !isEnumType(leaf) && ['String', 'Boolean', 'DateTime', 'JSON', 'JSONObject'].includes(leaf.name);
    columns.push({
      key: keyOf(selection),
      member: plain,
      show: asIs ? null : (value) => leaf.coerceOutputValue(value),
      sure: isNonNullType(field.type) ? `${type.name}.${field.name}` : null,
    });
  }
  return columns;
}
