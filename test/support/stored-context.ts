import type { JsonObject } from '../../src/domain/values.ts';
import type { StoredContext } from '../../src/machines/definition.ts';

/** A stored context in one object, as the store returns it. */
export const flatContext = ({ fixed, live }: StoredContext): JsonObject => ({ ...fixed, ...live });
