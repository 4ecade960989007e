import { hash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { EpochMs, Json, Uuid } from './values.ts';

// The hash chain over audited entries. Each block's hash covers the one before it, and the digest of its entries is a chain
// as well, so a changed, added, removed or moved entry changes every hash after it.

/** The hash before the first block, and the digest before its first entry. */
export const GENESIS_HASH = '0'.repeat(64);

/** What a block's hash covers. */
export interface BlockHeader {
  tenantId: Uuid | null;
  sequence: number;
  position: number;
  entries: number;
  firstAt: number;
  lastAt: number;
  digest: string;
  previous: string;
}

const sha256 = (value: Json): string => hash('sha256', canonicalize(value) as string);

/** The digest after an entry (RFC 8785 canonical form, SHA-256, hex). */
export const extendDigest = (digest: string, position: number, content: Json): string =>
  sha256([digest, position, content]);

export const blockHash = ({ tenantId, sequence, position, entries, ...rest }: BlockHeader): string => {
  const { firstAt, lastAt, digest, previous } = rest;
  return sha256(['twinkeep audit block 1', tenantId, sequence, position, entries, firstAt, lastAt, digest, previous]);
};

const HEAD = /^(0|[1-9][0-9]{0,14}):([0-9a-f]{64})(?::(0|[1-9][0-9]{0,14})(:next)?)?$/;

/** A block of a chain as it is kept elsewhere: its number, its hash, and the time of its newest entry. */
export interface ChainHead {
  sequence: number;
  hash: string;
  /** Null in a head that was kept without it. */
  lastAt: EpochMs | null;
  /** The end of a part of a verification, which continues there. */
  continues?: boolean;
}

/** A head as text, `<sequence>:<hash>:<time in ms>`. */
export function headText({ sequence, hash, lastAt, continues }: ChainHead): string {
  const parts = [sequence, hash, ...(lastAt === null ? [] : [lastAt]), ...(continues ? ['next'] : [])];
  return parts.join(':');
}

/** Null if the text is not a head. */
export function parseHead(text: string): ChainHead | null {
  const [, sequence, hash, lastAt, continues] = HEAD.exec(text) ?? [];
  if (sequence === undefined || hash === undefined) return null;
  return {
    ...{ sequence: Number(sequence), hash, lastAt: lastAt === undefined ? null : Number(lastAt) },
    ...(continues !== undefined && { continues: true }),
  };
}
