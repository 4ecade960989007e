import { GENESIS_HASH } from '../../../src/domain/audit-chain.ts';
import { NIL_UUID } from '../../../src/domain/uuid.ts';
import type { Json, Uuid } from '../../../src/domain/values.ts';
import type { AuditBlock, AuditChainStore, ChainedEntry, ChainPlace } from '../../../src/store/contract/audit-chain.ts';
import type { Tables } from './database.ts';
import type { Session } from './session.ts';

/** The next position of an audited entry. */
export function nextAuditPosition(tables: Tables): number {
  const position = (tables.auditPositions.get('last') ?? 0) + 1;
  tables.auditPositions.set('last', position);
  return position;
}

function entriesOf(tables: Tables, tenantId: Uuid | null): ChainedEntry[] {
  const rows = tables.audit
    .where((row) => row.tenantId === tenantId)
    .map(({ position, id, at, by, key, via, action, subject, outcome, requestId, address, client, count }) => {
      const content = ['audit', id, at, by, key, via, action, subject, outcome, requestId, address, client, count];
      return { position, at, content: content as Json };
    });
  const transitions = [...tables.journal].flatMap(([actor, journal]) => {
    const [kind = '', id = ''] = actor.split(':');
    return journal
      .filter((row) => row.tenantId === tenantId && row.by.kind === 'user')
      .map(({ position, version, at, by, event, from, to, data = null }) => {
        const content = ['journal', kind, id, version, at, by, event, from, to, data];
        return { position, at, content: JSON.parse(JSON.stringify(content)) as Json };
      });
  });
  return [...rows, ...transitions].sort((one, other) => one.position - other.position);
}

const blocksOf = (tables: Tables, tenantId: Uuid | null): AuditBlock[] => [
  ...(tables.auditBlocks.get(tenantId ?? NIL_UUID) ?? []),
];

const placeOf = ({ sequence, position, hash }: AuditBlock): ChainPlace => ({ sequence, position, hash });

export const auditChainStore = (session: Session): AuditChainStore => ({
  // A statement is a whole transaction, so none is running.
  mark: () =>
    session.read('auditChain.mark', [], (tables) => ({
      position: tables.auditPositions.get('last') ?? 0,
      transaction: '1',
    })),
  isSettled: (transaction) => session.read('auditChain.isSettled', [transaction], (_, settled) => settled === '1'),

  unsealedTenants: (after, limit) =>
    session.read('auditChain.unsealedTenants', [after, limit], (tables, after, limit) => {
      const ids = [...tables.actors.values()].filter(({ ref }) => ref.kind === 'tenant').map(({ ref }) => ref.id);
      const page = ids
        .filter((id) => id > after)
        .sort()
        .slice(0, limit);
      const tenants = page.filter((id) => {
        const sealed = tables.auditHeads.get(id)?.position ?? 0;
        return entriesOf(tables, id).some(({ position }) => position > sealed);
      });
      return { tenants, next: page.length < limit ? null : (page.at(-1) ?? null) };
    }),

  state: (tenantId) =>
    session.read('auditChain.state', [tenantId], (tables, tenantId) => {
      const { removed = null, ...head } = tables.auditHeads.get(tenantId ?? NIL_UUID) ?? {};
      return {
        head: 'hash' in head ? head : null,
        last: blocksOf(tables, tenantId).at(-1) ?? null,
        removed: removed === null ? { sequence: 0, position: 0, hash: GENESIS_HASH } : placeOf(removed),
        removedBlock: removed,
        expiredBefore: tables.pruning.get('expired before') ?? 0,
      };
    }),

  entries: (tenantId, after, upTo, limit) =>
    session.read('auditChain.entries', [tenantId, after, upTo, limit], (tables, tenantId, after, upTo, limit) =>
      entriesOf(tables, tenantId)
        .filter(({ position }) => position > after && position <= upTo)
        .slice(0, limit),
    ),

  blocks: (tenantId, after, limit) =>
    session.read('auditChain.blocks', [tenantId, after, limit], (tables, tenantId, after, limit) =>
      blocksOf(tables, tenantId)
        .filter(({ sequence }) => sequence > after)
        .slice(0, limit),
    ),

  seal: (tenantId, block) =>
    session.write('auditChain.seal', [tenantId, block], (tables, tenantId, block) => {
      const key = tenantId ?? NIL_UUID;
      const head = tables.auditHeads.get(key);
      if (head !== undefined && (head.sequence !== block.sequence - 1 || head.hash !== block.previous)) return false;
      const { sequence, position, hash } = block;
      const removed = head?.removed ?? null;
      tables.auditHeads.set(key, { sequence, position, hash, removed });
      tables.auditBlocks.set(key, [...blocksOf(tables, tenantId), block]);
      return true;
    }),
});

/** Deletes blocks whose entries have all expired, from the beginning of each chain; returns how many were deleted. */
export function pruneAuditBlocks(tables: Tables, limit: number, batch: number): number {
  let deleted = 0;
  for (const [key, blocks] of tables.auditBlocks) {
    const kept = blocks.findIndex(({ lastAt }) => lastAt >= limit);
    const expired = blocks.slice(0, Math.min(kept === -1 ? blocks.length : kept, batch - deleted));
    const last = expired.at(-1);
    const head = tables.auditHeads.get(key);
    if (last === undefined || head === undefined) continue;
    deleted += expired.length;
    tables.auditBlocks.set(key, blocks.slice(expired.length));
    tables.auditHeads.set(key, { ...head, removed: last });
  }
  return deleted;
}
