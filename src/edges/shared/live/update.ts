import type { JsonSpan } from '../../../domain/json/span.ts';
import type { JsonObject, Uuid } from '../../../domain/values.ts';

/** A JSON text as a sequence of fragments to be concatenated. */
export type JsonFragments = readonly (string | JsonSpan)[];

/** One update for the clients of a tenant. */
export interface Update {
  kind: string;
  tenantId: Uuid;
  /** Null if it belongs to no device; clients that filter by device do not get it then. */
  deviceId: Uuid | null;
  /** Conflation key: for a slow client a newer update of the same subject replaces an older one. */
  subject: string;
  /** Increases per subject, or null. An update not newer than the snapshot is dropped. */
  version: number | null;
  message(): JsonObject;
  /** The same as JSON text. */
  fragments(): JsonFragments;
}
