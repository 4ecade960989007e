import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { FirmwareSigningStore } from '../contract/firmware-signing.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';

interface KeyRow {
  key_id: string;
  public_key: string;
  name: string;
  added_by: Uuid;
  created_at: EpochMs;
}
/** Without keys there is one row, whose columns of a key are null. */
type Row = { required: boolean } & (KeyRow | Record<keyof KeyRow, null>);

export const firmwareSigningStore = (database: Database): FirmwareSigningStore => ({
  async find(tenantId) {
    const rows = await database.read<Row>({
      name: 'firmware_signing',
      scope: { tenantId },
      text: `select coalesce(s.required, false) as required, k.key_id, k.public_key, k.name, k.added_by, k.created_at
        from (select $1::uuid as tenant_id) t left join firmware_signing s using (tenant_id)
          left join firmware_keys k using (tenant_id)
        order by k.created_at, k.key_id collate "C"`,
      values: [tenantId],
    });
    const keys = rows.flatMap((row) =>
      row.key_id === null
        ? []
        : {
            ...{ keyId: row.key_id, publicKey: row.public_key, name: row.name },
            ...{ addedBy: row.added_by, createdAt: row.created_at },
          },
    );
    return { required: rows[0]?.required ?? false, keys };
  },

  async addKey(tenantId, key, most, idempotency) {
    const rows = await database.write({
      name: 'firmware_key_insert',
      scope: idempotentScope(tenantId, idempotency),
      text: `with made as (
          insert into firmware_keys (tenant_id, key_id, public_key, name, added_by, created_at)
          select $1::uuid, $2, $3, $4, $5::uuid, $6::bigint
          where (select count(*) from firmware_keys where tenant_id = $1) < $7::bigint
          on conflict do nothing returning key_id),
        also_required as (
          insert into firmware_signing (tenant_id, required) select $1, true from made
          on conflict (tenant_id) do update set required = true),
        ${idempotencyCte(8, 'made')}
        select key_id from made`,
      values: [
        ...[tenantId, key.keyId, key.publicKey, key.name, key.addedBy, key.createdAt, most],
        idempotencyParameter(idempotency),
      ],
    });
    return rows.length > 0;
  },

  async removeKey(tenantId, keyId) {
    const rows = await database.write({
      name: 'firmware_key_delete',
      scope: { tenantId },
      text: 'delete from firmware_keys where tenant_id = $1 and key_id = $2 returning key_id',
      values: [tenantId, keyId],
    });
    return rows.length > 0;
  },

  async setRequired(tenantId, required) {
    await database.write({
      name: 'firmware_signing_set',
      scope: { tenantId },
      text: `insert into firmware_signing (tenant_id, required) values ($1, $2)
        on conflict (tenant_id) do update set required = excluded.required`,
      values: [tenantId, required],
    });
  },
});
