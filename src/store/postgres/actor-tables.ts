import type { ActorKind } from '../../machines/outputs.ts';

/** A kind of actor's table: the columns its machine writes beside the common ones, with their types. */
export interface ActorTable {
  kind: ActorKind;
  name: string;
  columns: Readonly<Record<string, string>>;
  /** Those that follow from the value and the moving members of the context: all that a settled commit changes. */
  liveColumns: readonly string[];
  /** Members of the context that a column says already, by their names: they are not written again. */
  columnOf: Readonly<Record<string, string>>;
}

/** A new kind is one more entry here and one more table. */
export const actorTables: readonly ActorTable[] = [
  {
    kind: 'device',
    name: 'devices',
    columns: {
      device_type: 'text',
      home_id: 'uuid',
      room_id: 'uuid',
      category: 'text',
      firmware: 'text',
      revoked: 'boolean',
      deleted: 'boolean',
      online: 'boolean',
      created_at: 'bigint',
    },
    liveColumns: ['revoked', 'deleted', 'online'],
    columnOf: {},
  },
  {
    kind: 'command',
    name: 'commands',
    columns: {
      device_id: 'uuid',
      action: 'text',
      status: 'text',
      verification: 'text',
      critical: 'boolean',
      written: 'boolean',
      token_hash: 'text',
      created_at: 'bigint',
    },
    liveColumns: ['status', 'verification', 'written'],
    columnOf: { id: 'id', tenantId: 'tenant_id', deviceId: 'device_id', action: 'action', requestedAt: 'created_at' },
  },
  {
    kind: 'tenant',
    name: 'tenants',
    columns: { name: 'text', slug: 'text', suspended: 'boolean', created_at: 'bigint' },
    liveColumns: ['suspended'],
    columnOf: {},
  },
  {
    kind: 'plan',
    name: 'plans',
    columns: { status: 'text', over: 'boolean', thought: 'boolean', created_at: 'bigint' },
    liveColumns: ['status', 'over', 'thought'],
    columnOf: {},
  },
];

export function tableOf(kind: ActorKind): ActorTable {
  const table = actorTables.find((one) => one.kind === kind);
  if (!table) throw new Error(`no table keeps actors of the kind ${kind}`);
  return table;
}

/** As SQL, the statuses in which a command is open. One that timed out only waits for a late word. */
export const openCommandStatuses = `('submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress')`;
