import type { ActorColumns } from '../../machines/actor-columns.ts';
import type { ActorKind } from '../../machines/outputs.ts';

/** Table of an actor kind: the columns that its machine writes in addition to the common ones, with their types. */
export interface ActorTable {
  kind: ActorKind;
  name: string;
  columns: Readonly<Record<string, string>>;
  /**
   * Columns that follow from the value and the live fields of the context: all that a commit with an unchanged base
   * writes.
   */
  liveColumns: readonly string[];
  /** Context members that equal a column, with the column's name: they are not stored twice. */
  columnOf: Readonly<Record<string, string>>;
}

/** The table of a kind, with each of its columns. */
interface TableOf<Kind extends ActorKind> extends ActorTable {
  kind: Kind;
  columns: Readonly<Record<ColumnOf<Kind>, string>>;
  liveColumns: readonly ColumnOf<Kind>[];
  columnOf: Readonly<Record<string, ColumnOf<Kind> | 'id' | 'tenant_id'>>;
}
type ColumnOf<Kind extends ActorKind> = keyof ActorColumns[Kind] & string;

/** A new kind needs an entry here and a table. */
const tables: { readonly [Kind in ActorKind]: TableOf<Kind> } = {
  device: {
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
  command: {
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
  tenant: {
    kind: 'tenant',
    name: 'tenants',
    columns: { name: 'text', slug: 'text', suspended: 'boolean', created_at: 'bigint' },
    liveColumns: ['suspended'],
    columnOf: {},
  },
  plan: {
    kind: 'plan',
    name: 'plans',
    columns: { status: 'text', over: 'boolean', thought: 'boolean', created_at: 'bigint' },
    liveColumns: ['status', 'over', 'thought'],
    columnOf: {},
  },
};

export const actorTables: readonly ActorTable[] = Object.values(tables);

export const tableOf = (kind: ActorKind): ActorTable => tables[kind];
