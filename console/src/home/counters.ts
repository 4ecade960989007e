/** Rates shown on the home page, from the service's metrics. */
export type Series = 'messages' | 'turns' | 'refusals';

/** The counters that are summed for each series. */
const counters: Readonly<Record<Series, RegExp>> = {
  messages: /^twinkeep_mqtt_messages_total(\{[^}]*\})? (\S+)/gm,
  turns: /^twinkeep_turn_duration_seconds_count(\{[^}]*\})? (\S+)/gm,
  refusals: /^twinkeep_mqtt_refusals_total(\{[^}]*\})? (\S+)/gm,
};
export const names = Object.keys(counters) as Series[];

export function readCounters(text: string): Record<Series, number> {
  const sum = (pattern: RegExp): number =>
    [...text.matchAll(pattern)].reduce((total, [, , value]) => total + Number(value), 0);
  return Object.fromEntries(names.map((name) => [name, sum(counters[name])])) as Record<Series, number>;
}
