import type { FirmwareKey } from '../../../src/domain/firmware-signing.ts';
import type { Uuid } from '../../../src/domain/values.ts';
import type { FirmwareSigningStore } from '../../../src/store/contract/firmware-signing.ts';
import { bigint, boolean, type Columns, indexedText, rowOf, text, uuid } from './columns.ts';
import { putIdempotency } from './idempotency.ts';
import type { Session } from './session.ts';

export type FirmwareKeyRow = FirmwareKey & { tenantId: Uuid };

const columns: Columns<FirmwareKeyRow> = {
  ...{ tenantId: uuid, keyId: indexedText, publicKey: text, name: text, addedBy: uuid, createdAt: bigint },
};
const signingColumns: Columns<{ tenantId: Uuid; required: boolean }> = { tenantId: uuid, required: boolean };

const rowKey = (tenantId: Uuid, keyId: string): string => `${tenantId}/${keyId}`;

export const firmwareSigningStore = (session: Session): FirmwareSigningStore => ({
  find: (tenantId) =>
    session.read('firmwareSigning.find', [tenantId], (tables, tenantId) => ({
      required: tables.firmwareSigning.get(tenantId) ?? false,
      keys: tables.firmwareKeys
        .where((one) => one.tenantId === tenantId)
        .sort((a, b) => a.createdAt - b.createdAt || (a.keyId < b.keyId ? -1 : 1))
        .map(({ tenantId: _, ...key }) => key),
    })),

  addKey: (tenantId, key, most, idempotency) =>
    session.write('firmwareSigning.addKey', [tenantId, key, most, idempotency], (tables, tenantId, key, most, also) => {
      const row = rowOf(columns, { ...key, tenantId });
      const own = tables.firmwareKeys.where((one) => one.tenantId === row.tenantId);
      if (own.length >= most || own.some(({ keyId }) => keyId === row.keyId)) return false;
      tables.firmwareKeys.set(rowKey(row.tenantId, row.keyId), row);
      tables.firmwareSigning.set(row.tenantId, true);
      putIdempotency(tables, also);
      return true;
    }),

  removeKey: (tenantId, keyId) =>
    session.write('firmwareSigning.removeKey', [tenantId, keyId], (tables, tenantId, keyId) =>
      tables.firmwareKeys.delete(rowKey(tenantId, keyId)),
    ),

  setRequired: (tenantId, required) =>
    session.write('firmwareSigning.setRequired', [tenantId, required], (tables, tenantId, required) => {
      const row = rowOf(signingColumns, { tenantId, required });
      tables.firmwareSigning.set(row.tenantId, row.required);
    }),
});
