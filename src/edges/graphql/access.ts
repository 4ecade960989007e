import { type GraphQLSchema, Kind, type SelectionSetNode } from 'graphql';
import { type Refusal, refuse } from '../../domain/refusals.ts';
import { atLeast } from '../../domain/roles.ts';
import type { Caller, Operation } from '../../operations/operation.ts';
import type { PreparedDocument } from './documents.ts';

/** Why this caller may not read the schema or open the explorer; null if they may. */
export function introspectionRefusal({ user, role, platformAdmin }: Caller, production: boolean): Refusal | null {
  if (!production || platformAdmin || atLeast(role, 'admin')) return null;
  if (user === null) return refuse('UNAUTHENTICATED', 'Only administrators can read the schema.').refusal;
  return refuse('FORBIDDEN_ROLE', 'Only administrators can read the schema.').refusal;
}

/** Whether an operation selects a root field that anonymous callers may not use. */
export function needsAuthentication(schema: GraphQLSchema, { document, operation }: PreparedDocument): boolean {
  const fields = schema.getRootType(operation.operation)?.getFields() ?? {};
  const seen = new Set<string>();
  const needs = ({ selections }: SelectionSetNode): boolean =>
    selections.some((selection) => {
      if (selection.kind === Kind.INLINE_FRAGMENT) return needs(selection.selectionSet);
      if (selection.kind === Kind.FIELD) {
        const selected = fields[selection.name.value]?.extensions.operation as Operation | undefined;
        return selected !== undefined && selected.role !== null;
      }
      const name = selection.name.value;
      if (seen.has(name)) return false;
      seen.add(name);
      const fragment = document.definitions.find(
        (one) => one.kind === Kind.FRAGMENT_DEFINITION && one.name.value === name,
      );
      return fragment?.kind === Kind.FRAGMENT_DEFINITION && needs(fragment.selectionSet);
    });
  return needs(operation.selectionSet);
}
