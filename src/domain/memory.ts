import type { EpochMs, Principal, Uuid } from './values.ts';

export const memoryKinds = ['observation', 'preference', 'routine'] as const;
export type MemoryKind = (typeof memoryKinds)[number];

/** What an agent, or a person for agents, keeps for later. */
export interface Memory {
  /** UUID version 7. */
  id: Uuid;
  tenantId: Uuid;
  kind: MemoryKind;
  /** What it is about, in the writer's own words: a device's id, a room, a person. */
  subject: string | null;
  content: string;
  tags: readonly string[];
  source: string;
  createdAt: EpochMs;
  /** From then on it is forgotten. */
  expiresAt: EpochMs | null;
}

/** Who wrote it, which is never the writer's to say: `key:<prefix>`, `user:<id>`, or a part of the service by its name. */
export function memorySourceOf({ kind, id, key }: Principal): string {
  if (key !== undefined) return `key:${key}`;
  return kind === 'system' ? id : `${kind}:${id}`;
}

/**
 * What a person would not see and a language model would read: control characters but line breaks and tabs, and Unicode's
 * invisible copies of ASCII.
 */
export const INVISIBLE_CHARACTER = /[\u{e0000}-\u{e007f}]|[\p{Cc}--[\n\t]]/v;
