import type { JsonSpan } from '../../../domain/json/span.ts';
import type { JsonObject, Uuid } from '../../../domain/values.ts';

/** A JSON text in the parts that it is made of, one behind the other. */
export type JsonFragments = readonly (string | JsonSpan)[];

/** One thing to tell the clients of a tenant. */
export interface Update {
  kind: string;
  tenantId: Uuid;
  /** Null where it belongs to no device: clients that filter by device do not get it. */
  deviceId: Uuid | null;
  /** What it is about: for a slow client a newer update of the same subject replaces an older one. */
  subject: string;
  /** Counts up for each subject, or null: what a snapshot told already is not told again. */
  version: number | null;
  message(): JsonObject;
  /** The same as JSON text. */
  fragments(): JsonFragments;
}
