/** A UUID of any version as the service writes it, in lower case (RFC 9562 §4); to be part of a larger pattern. */
export const CANONICAL_UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';

const canonical = new RegExp(`^${CANONICAL_UUID}$`);
const inAnyCase = new RegExp(`^${CANONICAL_UUID}$`, 'i');

/** A UUID in lower case: compared with stored ids as it is. */
export const isCanonicalUuid = (text: string): boolean => canonical.test(text);

/** A UUID as a client may write it, in lower or upper case. */
export const isUuid = (text: string): boolean => inAnyCase.test(text);
