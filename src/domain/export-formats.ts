/** Formats of files that lists are exported as: the media type with its parameters, and the ending of the name. */
export const exportFormats = {
  ndjson: { type: 'application/x-ndjson', parameters: '', ending: 'ndjson' },
  csv: { type: 'text/csv', parameters: '; charset=utf-8; header=present', ending: 'csv' },
} as const;
export type ExportFormat = keyof typeof exportFormats;
