import type { EpochMs, Principal, Uuid } from './values.ts';

export const memoryKinds = ['observation', 'preference', 'routine'] as const;
export type MemoryKind = (typeof memoryKinds)[number];

/** A long-term note for agents, written by an agent or a person. */
export interface Memory {
  /** UUID version 7. */
  id: Uuid;
  tenantId: Uuid;
  kind: MemoryKind;
  /** The subject as free text: a device's id, a room, a person. */
  subject: string | null;
  content: string;
  tags: readonly string[];
  source: string;
  createdAt: EpochMs;
  /** When the memory is deleted. */
  expiresAt: EpochMs | null;
}

/**
 * The author, derived from the principal and never from the request: `key:<prefix>`, `user:<id>` or a service
 * component.
 */
export function memorySourceOf({ kind, id, key }: Principal): string {
  if (key !== undefined) return `key:${key}`;
  return kind === 'system' ? id : `${kind}:${id}`;
}

/**
 * Characters that people do not see but language models read: control characters except line breaks and tabs, and
 * Unicode's invisible copies of ASCII (tag characters).
 */
export const INVISIBLE_CHARACTER = /[\u{e0000}-\u{e007f}]|[\p{Cc}--[\n\t]]/v;
