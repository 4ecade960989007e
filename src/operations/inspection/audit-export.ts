import { z } from 'zod';
import { csvRecord } from '../../domain/csv.ts';
import type { Position } from '../../domain/cursor.ts';
import { type ExportFormat, exportFormats } from '../../domain/export-formats.ts';
import { iso } from '../../domain/iso-time.ts';
import { done } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { AuditFilter } from '../../store/contract/audit.ts';
import { operation, type Services } from '../operation.ts';
import { auditEntriesOf, auditedTenant, auditFilterOf, auditFilters } from './audit.ts';

/** Entries that are in memory at the same time. */
const PAGE_ENTRIES = 500;

type Entry = Awaited<ReturnType<typeof auditEntriesOf>>[number];

/** In the order of the columns; a column that an entry lacks does not compile. */
const columns = {
  ...{ at: true, by: true, key: true, via: true, action: true, subject: true, outcome: true, request_id: true },
  ...{ address: true, client: true, count: true, subject_name: true },
} as const satisfies Record<keyof Entry, true>;
const columnNames = Object.keys(columns) as (keyof typeof columns)[];

export const exportAudit = operation({
  name: 'exportAudit',
  summary: 'Download the audit log, newest first: one JSON object a line (NDJSON), or CSV for spreadsheets',
  input: auditFilters.extend({
    format: z
      .enum(['ndjson', 'csv'])
      .default('ndjson')
      .meta({ description: 'Texts that a spreadsheet would take for a formula begin with an apostrophe in CSV' }),
  }),
  output: z.null(),
  role: 'admin',
  acrossTenants: true,
  scope: 'read:audit',
  changes: false,
  streams: Object.values(exportFormats).map(({ type }) => type),
  refuses: ['FORBIDDEN', 'NOT_FOUND', 'OVERLOADED'],
  needs: ['actors', 'auditExports', 'clock', 'store'],
  async run(services, { input, caller }) {
    const tenant = await auditedTenant(services, caller, input);
    if (!tenant.ok) return tenant;
    const { type, parameters, ending } = exportFormats[input.format];
    const name = `audit-${iso(services.clock.now()).slice(0, 10)}.${ending}`;
    return done({
      body: null,
      stream: {
        type: `${type}${parameters}`,
        name,
        open(signal) {
          const begun = services.auditExports.begin(tenant.value);
          if (!begun.ok) return begun;
          const pages = pagesOf(services, tenant.value, auditFilterOf(input), signal);
          return done(chunksOf(pages, input.format, begun.value));
        },
      },
    });
  },
});

/** The entries, until the signal aborts. A page with few or no entries was long to find. */
async function* pagesOf(
  { store }: Pick<Services, 'store'>,
  tenantId: Uuid | null,
  filter: AuditFilter,
  signal: AbortSignal,
): AsyncGenerator<readonly Entry[]> {
  for (let after: Position | null | undefined; after !== null && !signal.aborted; ) {
    const page: Awaited<ReturnType<typeof store.audit.list>> = await store.audit.list(
      ...([tenantId, filter, PAGE_ENTRIES, after] as const),
    );
    yield await auditEntriesOf({ store }, tenantId, page.items);
    after = page.next;
  }
}

async function* chunksOf(
  pages: AsyncIterable<readonly Entry[]>,
  format: ExportFormat,
  end: () => void,
): AsyncGenerator<string> {
  try {
    if (format === 'csv') yield csvRecord(columnNames);
    for await (const page of pages) {
      const lines = page.map((entry) =>
        format === 'csv' ? csvRecord(columnNames.map((column) => entry[column])) : `${JSON.stringify(entry)}\n`,
      );
      yield lines.join('');
    }
  } finally {
    end();
  }
}
