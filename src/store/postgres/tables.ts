import type { ActorKind } from '../../machines/outputs.ts';

/** A kind of actor's table: the columns its machine writes beside the common ones, with their types. */
export interface ActorTable {
  kind: ActorKind;
  name: string;
  columns: Readonly<Record<string, string>>;
  /** Those that follow from the value and the moving members of the context: all that a settled commit changes. */
  moving: readonly string[];
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
    moving: ['revoked', 'deleted', 'online'],
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
    moving: ['status', 'verification', 'written'],
  },
  {
    kind: 'tenant',
    name: 'tenants',
    columns: { name: 'text', slug: 'text', suspended: 'boolean', created_at: 'bigint' },
    moving: ['suspended'],
  },
  {
    kind: 'plan',
    name: 'plans',
    columns: { status: 'text', over: 'boolean', thought: 'boolean', created_at: 'bigint' },
    moving: ['status', 'over', 'thought'],
  },
];

export function tableOf(kind: ActorKind): ActorTable {
  const table = actorTables.find((one) => one.kind === kind);
  if (!table) throw new Error(`no table keeps actors of the kind ${kind}`);
  return table;
}

/** As SQL, the statuses in which a command is open. One that timed out only waits for a late word. */
export const notFinal = `('submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress')`;
