import { PROTOCOL_ROOT } from '../../protocol/constants.ts';

const LEVELS_BELOW = 4;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a filter must not contain control characters
const FORBIDDEN_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\ufffd]/;

/** A subscription of a tenant user, below `proto/{own tenant}/device/`. */
export interface TopicFilter {
  /** The levels below that prefix; `+` matches one level, `#` at the end any number. */
  levels: readonly string[];
  qos: 0 | 1;
}

export const tenantTopicPrefix = (tenantId: string): string => `${PROTOCOL_ROOT}/${tenantId}/device/`;

/**
 * The levels of a filter that stays within the user's tenant; null for any other filter. Invalid UTF-8, which aedes
 * decodes as U+FFFD, and control characters are refused.
 */
export function parseTopicFilter(filter: string, tenantId: string): readonly string[] | null {
  const prefix = tenantTopicPrefix(tenantId);
  if (!filter.startsWith(prefix) || FORBIDDEN_CHARACTERS.test(filter)) return null;
  const levels = filter.slice(prefix.length).split('/');
  if (levels.length > LEVELS_BELOW) return null;
  const valid = levels.every((level, index) => {
    if (level === '#') return index === levels.length - 1;
    return level === '+' || (level !== '' && !/[+#]/.test(level));
  });
  return valid ? levels : null;
}

/** Whether a filter matches a topic, both given by their levels below the tenant's prefix [MQTT-4.7]. */
export function matchesTopic(filter: readonly string[], topic: readonly string[]): boolean {
  for (let i = 0; i < filter.length; i++) {
    if (filter[i] === '#') return true;
    if (i >= topic.length || (filter[i] !== '+' && filter[i] !== topic[i])) return false;
  }
  return filter.length === topic.length;
}
