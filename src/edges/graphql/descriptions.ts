import type { Operation } from '../../operations/operation.ts';
import type { Shape } from './operation-shapes.ts';

/** What somebody has to know before they ask. */
export function describeOperation({ summary, role, scope, platformOnly, personOnly }: Operation): string {
  const needs = [
    platformOnly && 'a platform operator',
    role !== null && role !== 'none' && `the role \`${role}\``,
    scope !== null && `the scope \`${scope}\``,
  ].filter((one) => one !== false && one !== undefined);
  const who = personOnly ? ' For a person, never for a key.' : '';
  return `${summary}.${needs.length === 0 ? '' : ` Needs ${needs.join(' and ')}.`}${who}`;
}

/** The members of an object; of anything else there are none. */
export const membersOf = (shape: Shape) => (shape.kind === 'object' ? shape.members : []);

export function memberOf(shape: Shape, name: string): Shape {
  const member = membersOf(shape).find((one) => one.name === name);
  if (member === undefined) throw new Error(`there is no member ${name}`);
  return member.shape;
}
