import type { Operation } from '../../operations/operation.ts';

/** Every route stands under both (contract §2). */
export const BASE_PATHS = ['/v1', '/api/v1'] as const;

/** A line of the specification's table of endpoints. */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `{name}` is a member of the operation's input. The other members come in the query of a GET or DELETE, else in the body. */
  path: `/${string}`;
  operation: Operation;
  /** The usual status; the operation may answer another one. 204 sends no body. */
  success: 200 | 201 | 202 | 204;
  /** Stands at the root too, or there alone (contract §2). */
  atRoot?: true | 'only';
  /** Stands outside the request rate (contract §2). */
  rateLimitExempt?: true;
  /** Members that come in the query although the method has a body. */
  query?: readonly string[];
  /** Numbers that a header may carry as a condition instead, by its lower-case name: `{ 'if-match': 'version' }`. */
  conditionHeaders?: Readonly<Record<string, string>>;
  /**
   * Texts that only a header carries, by its lower-case name: a query would put them where they stay. The path of such a
   * route is not logged either.
   */
  secretHeaders?: Readonly<Record<string, string>>;
}

/**
 * Whether it takes an `Idempotency-Key`. Where nobody is needed none is looked at: there a stored answer would sign in, or out,
 * somebody else than it says.
 */
export const acceptsIdempotencyKey = ({ method, operation }: Route): boolean =>
  method === 'POST' && operation.changes && operation.role !== null;
