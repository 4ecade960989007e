import type { HistoryMode } from './history/rules.ts';
import { pathNamesOf } from './history/sample.ts';
import { isObject } from './json/value.ts';
import { paramOf } from './twin.ts';
import type { Json, JsonObject } from './values.ts';

/**
 * Reported properties, by path (`color.hue`), whose numbers last until the next sample: those with changes alone in the
 * history, and those that an action sets, as a target. Others are measured, and not known between two samples.
 */
export function steppedProperties(
  capabilities: readonly { expectedState?: JsonObject | undefined }[],
  properties: Readonly<Record<string, { history?: HistoryMode | undefined }>> = {},
): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { expectedState } of capabilities) if (expectedState !== undefined) collect(expectedState, '', found);
  for (const [path, { history }] of Object.entries(properties)) {
    const name = pathNamesOf(path).join('.');
    if (history === 'change') found.add(name);
    // The history does not know how long it lasted.
    else if (history === 'off') for (const one of found) if (`${one}.`.startsWith(`${name}.`)) found.delete(one);
  }
  return found;
}

function collect(template: Json, path: string, found: Set<string>): void {
  if (isObject(template) && paramOf(template) === undefined) {
    for (const [name, part] of Object.entries(template)) collect(part, path === '' ? name : `${path}.${name}`, found);
  } else if (path !== '') found.add(path);
}
