import { hash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Json, Uuid } from './values.ts';

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

const HEAD = /^(0|[1-9][0-9]{0,14}):([0-9a-f]{64})$/;

/** A head as text, `<sequence>:<hash>`, to be kept elsewhere. */
export const headText = ({ sequence, hash }: { sequence: number; hash: string }): string => `${sequence}:${hash}`;

/** Null if the text is not a head. */
export function parseHead(text: string): { sequence: number; hash: string } | null {
  const [, sequence, hash] = HEAD.exec(text) ?? [];
  return sequence === undefined || hash === undefined ? null : { sequence: Number(sequence), hash };
}
