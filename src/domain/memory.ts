import { isPerson } from './policy.ts';
import { allowsScope, type Scope } from './scopes.ts';
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
  /** The credential that wrote it; null if the version that stored it did not record one. */
  writer: MemoryAuthority | null;
  /** The last person who adopted it; null: not adopted. */
  adoption: (MemoryAuthority & { at: EpochMs }) | null;
  createdAt: EpochMs;
  /** When the memory is deleted. */
  expiresAt: EpochMs | null;
}

/** A user with the credential that was used. Role and scopes of a key are looked up again for each use of the memory. */
export interface MemoryAuthority {
  by: Principal;
  /** The scopes of a token; null: everything that the role allows. */
  scopes: readonly Scope[] | null;
}

export const memoryWriters = ['person', 'key', 'program', 'unknown'] as const;
/** `program`: a token that counts as no person's, as one that was presented at `/mcp`. */
export type MemoryWriter = (typeof memoryWriters)[number];

/** A memory without a recorded writer is by the author in its source. */
export function memoryWriterOf({ writer, source }: Pick<Memory, 'writer' | 'source'>): MemoryWriter {
  if (writer === null) return source.startsWith('user:') ? 'person' : source.startsWith('key:') ? 'key' : 'unknown';
  if (writer.by.key !== undefined) return 'key';
  return isPerson(writer.by) ? 'person' : 'program';
}

/**
 * The person whose permissions decide whether a routine or a preference steers goals: who adopted it, otherwise its
 * writer. Null for a suggestion, which a key or a program wrote and no person has adopted.
 */
export function steeringAuthority(memory: Pick<Memory, 'writer' | 'adoption' | 'source'>): MemoryAuthority | null {
  if (memory.adoption !== null) return memory.adoption;
  if (memoryWriterOf(memory) !== 'person') return null;
  return memory.writer ?? { by: { kind: 'user', id: memory.source.slice('user:'.length) }, scopes: null };
}

/**
 * Decides under whose permissions a memory counts: the credential that adopted or wrote it, or its source if no
 * writer is recorded. Memories with equal values may all be planned with, or none of them.
 */
export function memoryAuthorOf({
  adoption,
  writer,
  source,
}: Pick<Memory, 'writer' | 'adoption' | 'source'>): MemoryAuthor {
  if (adoption === null) return writer ?? source;
  const { at: _, ...authority } = adoption;
  return authority;
}
export type MemoryAuthor = MemoryAuthority | string;

/**
 * Whether a routine or a preference steers no goal until it is adopted: no person stands behind it, or one whose token may not
 * send commands. Observations steer nothing and are never suggestions.
 */
export function isSuggestion(memory: Pick<Memory, 'kind' | 'writer' | 'adoption' | 'source'>): boolean {
  if (memory.kind === 'observation') return false;
  const authority = steeringAuthority(memory);
  return authority === null || !allowsScope(authority.scopes, 'execute:commands');
}

/** A memory that shaped steps of a plan, as it was when they were proposed. */
export interface ShapingMemory extends Pick<Memory, 'id' | 'kind' | 'subject' | 'source'> {
  /** The user who adopted it. */
  adoptedBy: Uuid | null;
  /** Ids of the steps. */
  steps: readonly string[];
}

/** Memories that a plan names. */
export const MAX_SHAPING_MEMORIES = 100;

/** The memories with this step added to those that shaped it; those beyond the maximum are left out. */
export function addShapingMemories(
  known: readonly ShapingMemory[],
  stepId: string,
  memories: readonly Omit<ShapingMemory, 'steps'>[],
): readonly ShapingMemory[] {
  const byId = new Map(known.map((one) => [one.id, one]));
  for (const memory of memories) {
    const steps = byId.get(memory.id)?.steps ?? [];
    if (byId.has(memory.id) || byId.size < MAX_SHAPING_MEMORIES)
      byId.set(memory.id, { ...memory, steps: [...steps.filter((id) => id !== stepId), stepId] });
  }
  return [...byId.values()];
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
