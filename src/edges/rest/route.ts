import type { ZodType } from 'zod';
import type { JsonObject } from '../../domain/values.ts';
import type { Operation } from '../../operations/operation.ts';

/** Every route is available below both (contract §2). */
export const BASE_PATHS = ['/v1', '/api/v1'] as const;

/** A row of the specification's endpoint tables. */
export interface Route {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `{name}` is a member of the operation's input. The other members are in the query of a GET or DELETE, otherwise in the body. */
  path: `/${string}`;
  operation: Operation;
  /** Answers requests that have no credential, in place of `operation`; `body` is what they send, for the API reference. */
  withoutCredential?: { operation: Operation; body: ZodType };
  /**
   * Answers requests whose `Accept` prefers one of these media types to JSON, in place of `operation`; `input` are members that
   * the header stands for.
   */
  byMediaType?: Readonly<Record<string, { operation: Operation; input: JsonObject }>>;
  /** Default status of a success; the operation may set another one. 204 sends no body. */
  success: 200 | 201 | 202 | 204;
  /** Also available at the root, or only there (contract §2). */
  atRoot?: true | 'only';
  /** Not counted by the rate limit (contract §2). */
  rateLimitExempt?: true;
  /** Members in the query although the method has a body. */
  query?: readonly string[];
  /** Numeric members that a conditional header may carry instead, by its lower-case name: `{ 'if-match': 'version' }`. */
  conditionHeaders?: Readonly<Record<string, string>>;
  /**
   * Secret members that only a header carries, by its lower-case name: URLs end up in logs and histories. The path of such a
   * route is not logged either.
   */
  secretHeaders?: Readonly<Record<string, string>>;
}

/**
 * Whether the route accepts an `Idempotency-Key`. Operations without authentication ignore it: replaying a stored sign-in or
 * sign-out response would affect another user.
 */
export const acceptsIdempotencyKey = ({ method, operation }: Route): boolean =>
  method === 'POST' && operation.changes && operation.role !== null;
