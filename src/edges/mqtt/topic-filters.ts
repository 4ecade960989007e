import { PROTOCOL_ROOT } from '../../protocol/constants.ts';

const LEVELS_BELOW = 4;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a filter must not hold
const FORBIDDEN_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\ufffd]/;

/** A subscription of a tenant user, below `proto/{own tenant}/device/`. */
export interface TopicFilter {
  /** The levels below that prefix; `+` is any one, `#` at the end any number. */
  levels: readonly string[];
  qos: 0 | 1;
}

export const tenantTopicPrefix = (tenantId: string): string => `${PROTOCOL_ROOT}/${tenantId}/device/`;

/**
 * The levels of a filter that asks for nothing outside its own tenant, or null. Broken UTF-8, which the library reads as
 * U+FFFD, and control characters are refused.
 */
export function parseTopicFilter(filter: string, tenantId: string): readonly string[] | null {
  const prefix = tenantTopicPrefix(tenantId);
  if (!filter.startsWith(prefix) || FORBIDDEN_CHARACTERS.test(filter)) return null;
  const levels = filter.slice(prefix.length).split('/');
  if (levels.length > LEVELS_BELOW) return null;
  const sound = levels.every((level, index) => {
    if (level === '#') return index === levels.length - 1;
    return level === '+' || (level !== '' && !/[+#]/.test(level));
  });
  return sound ? levels : null;
}

/** Whether a filter takes a topic, both given by their levels below the tenant's prefix [MQTT-4.7]. */
export function matchesTopic(filter: readonly string[], topic: readonly string[]): boolean {
  for (let i = 0; i < filter.length; i++) {
    if (filter[i] === '#') return true;
    if (i >= topic.length || (filter[i] !== '+' && filter[i] !== topic[i])) return false;
  }
  return filter.length === topic.length;
}
