import { z } from 'zod';
import { UUID } from './uuid.ts';

/**
 * An id in a request, a response or a stored record: a UUID of any version, as PostgreSQL accepts it, converted to lower
 * case. An id that does not exist is "not found", not malformed.
 */
export const uuid = z.stringFormat('uuid', UUID).toLowerCase();
