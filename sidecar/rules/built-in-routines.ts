// Built-in routines, as text in the grammar of the rules. A routine of the same name in memory overrides them.

const builtInRoutines: readonly (readonly [RegExp, string])[] = [
  // Locks first, so that a door that cannot be locked is noticed while the lights are still on.
  [
    /^(?:good ?night|night|night mode|bed ?time|time for bed|(?:im|i am|we are|were) going to (?:bed|sleep)|go to (?:bed|sleep))$/,
    'lock the doors; then turn off the lights; close the covers; make the climate night; set the controllers to night; arm the alarm',
  ],
  [
    /^(?:good ?morning|morning|wake up|(?:im|i am|we are|were) (?:up|awake))$/,
    'open the covers; make the climate comfortable; set the controllers to home',
  ],
  [
    /^(?:good ?bye|bye|leaving|leave(?: home| house)?|away|away mode|(?:im|i am|we are|were) (?:leaving|off|out|away|going out)|nobody (?:is )?(?:at )?home)$/,
    'turn off the lights; turn off the appliances; make the climate away; set the controllers to away; then lock the doors; then arm the alarm',
  ],
  [
    /^(?:welcome(?: home)?|coming home|home|home mode|(?:im|i am|we are|were) (?:home|back)(?: home)?)$/,
    'set the controllers to home; make the climate comfortable',
  ],
  [/^(?:movie|film|cinema|movie night|movie time|watch (?:movie|film))$/, 'set the lights to 20 %; close the covers'],
];

/** The text of the built-in routine with this name. */
export const builtInRoutineOf = (name: string): string | null =>
  builtInRoutines.find(([pattern]) => pattern.test(name))?.[1] ?? null;
