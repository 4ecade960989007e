import type { StateChanges } from '../domain/twin.ts';
import type { ReceivedProblem } from './errors.ts';
import type { Io } from './io.ts';

type Cell = string | number | boolean | null | undefined;

const formatCell = (cell: Cell): string => (cell === null || cell === undefined || cell === '' ? '-' : String(cell));

/** Prints a table on stdout, or the hint `none` on stderr for zero rows. */
export function printTable(io: Io, heads: readonly string[], rows: readonly (readonly Cell[])[]): void {
  if (rows.length === 0) {
    io.err(io.errColors.dim('none'));
    return;
  }
  const texts = rows.map((row) => row.map(formatCell));
  const widths = heads.map((head, n) => Math.max(head.length, ...texts.map((row) => row[n]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, n) => cell.padEnd(widths[n] ?? 0))
      .join('  ')
      .trimEnd();
  io.out(io.outColors.dim(line(heads)));
  for (const row of texts) io.out(line(row));
}

/** Prints one `name  value` per line; objects as JSON. */
export function printRecord(io: Io, fields: Readonly<Record<string, unknown>>): void {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : formatCell(value as Cell);
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
  if (/^(succeeded|verified|online|active|allowed)$/.test(status)) return outColors.green(status);
  if (
    /^(failed|rejected|timed_out|expired|mismatched|revoked|offline|rolled_back|rollback_failed|compensation_failed)$/.test(
      status,
    )
  )
    return outColors.red(status);
  return outColors.yellow(status);
}

/** One `name: from → to` per property. */
export const formatChanges = ({ bold }: Io['outColors'], changes: StateChanges | null): string[] =>
  Object.entries(changes ?? {}).map(
    ([name, { from, to }]) =>
      `${escapeForTerminal(name)}: ${escapeForTerminal(JSON.stringify(from))} → ${bold(escapeForTerminal(JSON.stringify(to)))}`,
  );

/** Escapes untrusted text: control and formatting characters could control the terminal or reorder the line. */
export const escapeForTerminal = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
