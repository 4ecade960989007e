import type { Operation } from '../../operations/operation.ts';
import type { Shape } from './operation-shapes.ts';

/** Description of a root field: the summary, and the role and scope that it needs. */
export function describeOperation({ summary, role, scope, alsoScope, platformOnly, personOnly }: Operation): string {
  const needs = [
    platformOnly && 'a platform operator',
    role !== null && role !== 'none' && `the role \`${role}\``,
    scope !== null && `the scope \`${scope}\``,
    alsoScope !== undefined && `the scope \`${alsoScope}\``,
  ].filter((one) => one !== false && one !== undefined);
  const restriction = personOnly ? ' For people only: API keys cannot use it.' : '';
  return `${summary}.${needs.length === 0 ? '' : ` Needs ${needs.join(' and ')}.`}${restriction}`;
}

/** The members of an object shape; empty for any other shape. */
export const membersOf = (shape: Shape) => (shape.kind === 'object' ? shape.members : []);

export function memberOf(shape: Shape, name: string): Shape {
  const member = membersOf(shape).find((one) => one.name === name);
  if (member === undefined) throw new Error(`the shape has no member ${name}`);
  return member.shape;
}
