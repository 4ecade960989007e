/** A UUID of any version as the service writes it, in lower case (RFC 9562 §4); to be part of a larger pattern. */
export const CANONICAL_UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';

/** Before every other UUID (RFC 9562 §5.9). */
export const NIL_UUID = '00000000-0000-0000-0000-000000000000';

const canonical = new RegExp(`^${CANONICAL_UUID}$`);
/** A UUID in lower or upper case. */
export const UUID = new RegExp(`^${CANONICAL_UUID.replaceAll('a-f', 'a-fA-F')}$`);

/** A UUID in lower case: compared with stored ids as it is. */
export const isCanonicalUuid = (text: string): boolean => canonical.test(text);

/** A UUID as a client may write it, in lower or upper case. */
export const isUuid = (text: string): boolean => UUID.test(text);
