import type { Preview, StateChanges } from '../domain/twin.ts';
import type { ReceivedProblem } from './errors.ts';
import type { Io } from './io.ts';
import { fitWidths } from './table-widths.ts';
import { columnsOf, escapeForTerminal, escapeJson, fitColumns } from './terminal-text.ts';
import { formatTime, isTime } from './time-text.ts';

const SEPARATOR = '  ';

type Cell = string | number | boolean | null | undefined;

/** Escaped before the width of its column is measured. A time is shown as `formatTime` has it. */
function formatCell(io: Io, cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-';
  const text = String(cell);
  return isTime(text) ? formatTime(io, text) : escapeForTerminal(text);
}

/**
 * Prints a table on stdout, or the hint `none` on stderr for zero rows. On a terminal its columns are shortened to the
 * terminal's width, except with `--wide`.
 */
export function printTable(io: Io, heads: readonly string[], rows: readonly (readonly Cell[])[]): void {
  if (rows.length === 0) {
    io.err(io.errColors.dim('none'));
    return;
  }
  const texts = rows.map((row) => row.map((cell) => formatCell(io, cell)));
  const columns = heads.map((head, n) => [head, ...texts.map((row) => row[n] ?? '')]);
  const { isTTY, columns: available = 0 } = io.stdout;
  const measure = isTTY === true ? columnsOf : (text: string) => text.length;
  const widths = columns.map((column) => column.reduce((width, text) => Math.max(width, measure(text)), 0));
  const fits = isTTY === true && available > 0 && !io.display.wide;
  const shown = fits ? fitWidths(columns, widths, available - SEPARATOR.length * (heads.length - 1)) : widths;
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, n) => {
        const text = fits ? fitColumns(cell, shown[n] ?? 0) : cell;
        return text + ' '.repeat(Math.max(0, (shown[n] ?? 0) - measure(text)));
      })
      .join(SEPARATOR)
      .trimEnd();
  io.out(io.outColors.dim(line(heads)));
  for (const row of texts) io.out(line(row));
}

/** Prints a value as JSON on one line, without characters that a terminal acts on. */
export const printJson = (io: Io, value: unknown): void => io.out(escapeJson(JSON.stringify(value)));

/** Prints one `name  value` per line; objects as JSON. */
export function printRecord(io: Io, fields: Readonly<Record<string, unknown>>): void {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : formatCell(io, value as Cell);
    io.out(`${io.outColors.dim(name.padEnd(width))}  ${text}`);
  }
}

export function printProblem(io: Io, { status, code, detail, title, errors, request_id }: ReceivedProblem): void {
  const { red, dim } = io.errColors;
  io.err(`${red(`${status} ${code ?? ''}`.trim())} ${detail ?? title}`);
  for (const { path, message } of errors ?? []) if (path !== '') io.err(`  ${path}: ${message}`);
  if (request_id !== undefined) io.err(dim(`  request ${request_id}`));
}

/** Colours a status of a device, command or plan. */
export function colorStatus({ outColors }: Io, status: string): string {
  if (/^(succeeded|verified|online|active|allowed|operational|success)$/.test(status)) return outColors.green(status);
  if (
    /^(failed|rejected|timed_out|expired|mismatched|revoked|offline|rolled_back|rollback_failed|compensation_failed)$/.test(
      status,
    )
  )
    return outColors.red(status);
  return outColors.yellow(status);
}

/** One `name: from → to` per property. */
export const formatChanges = ({ bold }: Pick<Io['outColors'], 'bold'>, changes: StateChanges | null): string[] =>
  Object.entries(changes ?? {}).map(
    ([name, { from, to }]) => `${name}: ${JSON.stringify(from)} → ${bold(JSON.stringify(to))}`,
  );

/** The contents of a preview: the changes, and the release that an update installs. */
export const formatPreview = (
  colors: Pick<Io['outColors'], 'bold'>,
  { changes, firmware }: Pick<Preview, 'changes' | 'firmware'>,
): string[] => [
  ...formatChanges(colors, changes),
  ...Object.entries(firmware ?? {}).map(([name, value]) => `firmware ${name}: ${value ?? 'unknown'}`),
];
