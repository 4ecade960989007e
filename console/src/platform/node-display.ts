import type { listNodes } from '../../../src/operations/platform/nodes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import type { Tone } from '../ui/tone.ts';

// Texts and choices of the page of nodes.

export type NodesBody = ResponseBody<typeof listNodes>;
export type ListedNode = NodesBody['nodes'][number];

export const stateTones = {
  joining: 'info',
  active: 'good',
  draining: 'warn',
  stopping: 'quiet',
} satisfies Record<ListedNode['state'], Tone>;

export const percentage = (share: number): string => `${Math.round(share * 100)} %`;

const MIB = 1_048_576;

/** `310 MiB`, `3.7 GiB`. */
export const memory = (bytes: number): string =>
  bytes < 1_024 * MIB ? `${Math.round(bytes / MIB)} MiB` : `${(bytes / (1_024 * MIB)).toFixed(1)} GiB`;

/** Seconds with one decimal; a dash if the age is not known. */
export const leaseAge = (milliseconds: number | null): string =>
  milliseconds === null ? '–' : `${(milliseconds / 1_000).toFixed(1)} s`;

/** The change that an operator can request; null while the node joins or stops, or is the last active one. */
export function changeOf(node: ListedNode, all: readonly ListedNode[]): 'drain' | 'resume' | null {
  if (node.state === 'draining') return 'resume';
  if (node.state !== 'active') return null;
  return all.some(({ id, state }) => id !== node.id && state === 'active') ? 'drain' : null;
}
