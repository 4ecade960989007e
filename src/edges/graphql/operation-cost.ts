import {
  type FieldNode,
  type GraphQLField,
  type GraphQLSchema,
  getNamedType,
  isInterfaceType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { type Fragments, isIntrospectionField } from './document-limits.ts';

/** Entries of a page when `first` is left out: fewer than in the REST API, because a document may cost only so much. */
export const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 200;

/** Cost of one introspection field, which may answer the whole schema. */
const INTROSPECTION_COST = 2_000;

/** Cost hints of a field, in its `extensions`. */
export interface FieldCosts {
  /** Fixed cost of selecting the field. */
  cost?: number;
  /** The field is a connection: the cost of an entry counts once per entry of the page. */
  isConnection?: true;
  /** Assumed length of a list, or the argument that limits it: of the field, or of a field around it that has it in `listLimits`. */
  assumedEntries?: number | string;
  /** Arguments that limit lists within the result, with their defaults. */
  listLimits?: Readonly<Record<string, number>>;
}

type ListLimits = NonNullable<FieldCosts['listLimits']>;

/** Where a selection set is. */
interface Place {
  /** The page size of the connection whose fields these are, otherwise 1. */
  each: number;
  /** Arguments of the fields around it that limit lists. */
  listLimits: ListLimits;
}

type Field = GraphQLField<unknown, unknown>;

interface CostParts {
  schema: GraphQLSchema;
  fragments: Fragments;
  variables: Readonly<Record<string, unknown>>;
}

/**
 * Cost of a valid operation in points: 1 for each field of each entry that it may return, plus 10 for each query field, 100
 * for each mutation field and 2,000 for each introspection field. A list without a limit counts as 10 entries, unless it is
 * mostly longer or shorter. A field's argument may also limit lists within its result.
 */
export const costOf = (operation: OperationDefinitionNode, parts: CostParts): number =>
  new OperationCost(operation, parts).total();

class OperationCost {
  readonly #operation: OperationDefinitionNode;
  readonly #parts: CostParts;
  readonly #fragmentCosts = new Map<string, number>();

  constructor(operation: OperationDefinitionNode, parts: CostParts) {
    this.#operation = operation;
    this.#parts = parts;
  }

  total(): number {
    const { selectionSet, operation } = this.#operation;
    return this.#costOf(selectionSet, this.#parts.schema.getRootType(operation), { each: 1, listLimits: {} });
  }

  #costOf({ selections }: SelectionSetNode, type: unknown, place: Place): number {
    const fields = isObjectType(type) || isInterfaceType(type) ? type.getFields() : {};
    let sum = 0;
    for (const selection of selections) {
      if (selection.kind === Kind.FIELD) {
        const name = selection.name.value;
        sum += this.#costOfField(selection, Object.hasOwn(fields, name) ? fields[name] : undefined, place);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        const on = selection.typeCondition?.name.value;
        sum += this.#costOf(selection.selectionSet, on === undefined ? type : this.#parts.schema.getType(on), place);
      } else {
        sum += this.#costOfFragment(selection.name.value, place);
      }
    }
    return sum;
  }

  /** A fragment on the entries of a connection counts once per entry. */
  #costOfFragment(name: string, place: Place): number {
    const key = `${JSON.stringify(place)} ${name}`;
    const known = this.#fragmentCosts.get(key);
    if (known !== undefined) return known;
    const fragment = this.#parts.fragments.get(name);
    const type = fragment && this.#parts.schema.getType(fragment.typeCondition.name.value);
    const cost = fragment === undefined ? 0 : this.#costOf(fragment.selectionSet, type, place);
    this.#fragmentCosts.set(key, cost);
    return cost;
  }

  #costOfField(node: FieldNode, field: Field | undefined, { each, listLimits }: Place): number {
    if (field === undefined) return isIntrospectionField(node) ? INTROSPECTION_COST : 1;
    const { cost = 0, isConnection } = field.extensions as FieldCosts;
    const own = 1 + cost;
    if (node.selectionSet === undefined) return own;
    const type = getNamedType(field.type);
    const inner = this.#limitsWithin(node, field, listLimits);
    if (isConnection) {
      const page = { each: pageSizeOf(this.#argument(node, 'first')), listLimits: inner };
      return own + this.#costOf(node.selectionSet, type, page);
    }
    const entries = this.#entriesOf(node, field, { each, listLimits });
    return own + entries * this.#costOf(node.selectionSet, type, { each: 1, listLimits: inner });
  }

  #limitsWithin(node: FieldNode, field: Field, listLimits: ListLimits): ListLimits {
    const { listLimits: own } = field.extensions as FieldCosts;
    if (own === undefined) return listLimits;
    const given = Object.entries(own).map(
      ([name, fallback]) => [name, this.#argument(node, name) ?? fallback] as const,
    );
    return { ...listLimits, ...Object.fromEntries(given.map(([name, size]) => [name, Math.max(1, Number(size))])) };
  }

  /** Number of entries that the field may return, for each of its parents. */
  #entriesOf(node: FieldNode, field: Field, { each, listLimits }: Place): number {
    if (each > 1 && (field.name === 'edges' || field.name === 'nodes')) return each;
    const { assumedEntries = 1 } = field.extensions as FieldCosts;
    if (typeof assumedEntries === 'number') return assumedEntries;
    if (Object.hasOwn(listLimits, assumedEntries)) return listLimits[assumedEntries] ?? 1;
    return pageSizeOf(this.#argument(node, assumedEntries) ?? defaultOf(field, assumedEntries));
  }

  #argument(node: FieldNode, argument: string): unknown {
    const value = node.arguments?.find(({ name }) => name.value === argument)?.value;
    if (value?.kind === Kind.INT) return Number(value.value);
    if (value?.kind !== Kind.VARIABLE) return undefined;
    const name = value.name.value;
    const { variables } = this.#parts;
    if (Object.hasOwn(variables, name)) return variables[name];
    const { variableDefinitions } = this.#operation;
    const fallback = variableDefinitions?.find(({ variable }) => variable.name.value === name)?.defaultValue;
    return fallback?.kind === Kind.INT ? Number(fallback.value) : undefined;
  }
}

const defaultOf = (field: Field, argument: string): unknown =>
  field.args.find(({ name }) => name === argument)?.default?.value;

const pageSizeOf = (entries: unknown): number =>
  typeof entries === 'number' ? Math.min(MAX_PAGE_SIZE, Math.max(1, entries)) : DEFAULT_PAGE_SIZE;
