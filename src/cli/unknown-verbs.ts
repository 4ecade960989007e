import type { Command } from 'commander';

/** A name that differs in more places is not suggested. */
const MAX_DISTANCE = 3;

/**
 * Refuses an unknown verb of a command with a default verb, such as `devices lst`, and suggests the nearest one. Otherwise
 * Commander passes it to the default verb as an argument, and with `--help` prints the help of the command.
 */
export function refuseUnknownVerbs(command: Command): void {
  for (const inner of command.commands) refuseUnknownVerbs(inner);
  command.hook('preSubcommand', (group, verb) => {
    if (verb.registeredArguments.length === 0) refuseUnknownVerb(group);
  });
  if (command.commands.length > 0)
    command.addHelpText('before', ({ error }) => (error ? '' : refuseUnknownVerb(command)));
}

function refuseUnknownVerb(group: Command): '' {
  const [given] = group.args;
  if (given === undefined || given.startsWith('-')) return '';
  const names = group.commands.flatMap((one) => [one.name(), ...one.aliases()]);
  if (names.includes(given)) return '';
  const nearest = nearestName(given, names);
  const suggestion = nearest === null ? '' : `\n(Did you mean ${nearest}?)`;
  group.error(`error: unknown command '${given}'${suggestion}`, { code: 'commander.unknownCommand', exitCode: 1 });
}

/** The name that differs least from `given`, or null if none is similar. */
export function nearestName(given: string, names: readonly string[]): string | null {
  const ranked = names
    .map((name) => ({ name, distance: editDistance(given, name) }))
    .filter(({ name, distance }) => distance <= MAX_DISTANCE && distance <= Math.max(given.length, name.length) / 2)
    .sort((a, b) => a.distance - b.distance);
  return ranked[0]?.name ?? null;
}

/** Insertions, deletions and replacements of characters that make `a` into `b` (Levenshtein). */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, n) => n);
  for (const [row, character] of [...a].entries()) {
    const current = [row + 1];
    for (const [column, other] of [...b].entries()) {
      const replaced = (previous[column] ?? 0) + (character === other ? 0 : 1);
      current.push(Math.min(replaced, (previous[column + 1] ?? 0) + 1, (current[column] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
