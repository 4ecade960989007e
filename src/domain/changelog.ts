/** A release in the answer of `GET /changelog`. */
export interface ChangelogEntry {
  version: string;
  /** Null while it is not released. */
  date: string | null;
  changes: string[];
}

const HEADING = /^##\s+\[?([^\]\s]+)\]?(?:\s+[-–]\s+(\d{4}-\d{2}-\d{2}))?\s*$/;
const SECTION = /^###\s+(.+?)\s*$/;
const ITEM = /^[-*]\s+(.*)$/;

/** Parses the Keep a Changelog format; each change is prefixed with its section, such as `Added: …`. */
export function parseChangelog(text: string): ChangelogEntry[] {
  const entries: ChangelogEntry[] = [];
  let section = '';
  for (const line of text.split(/\r?\n/)) {
    const heading = HEADING.exec(line);
    if (heading !== null) {
      entries.push({ version: heading[1] as string, date: heading[2] ?? null, changes: [] });
      section = '';
      continue;
    }
    const entry = entries.at(-1);
    if (entry === undefined) continue;
    const item = ITEM.exec(line);
    const kind = SECTION.exec(line);
    if (kind !== null) section = kind[1] as string;
    else if (item !== null) entry.changes.push(section === '' ? `${item[1]}` : `${section}: ${item[1]}`);
    else if (/^\s+\S/.test(line) && entry.changes.length > 0)
      entry.changes.push(`${entry.changes.pop()} ${line.trim()}`);
  }
  return entries;
}

/** The running version, then the others in the order of the file; an unreleased section without changes is left out. */
export function runningVersionFirst(entries: readonly ChangelogEntry[], version: string): ChangelogEntry[] {
  const shown = entries.filter(({ date, changes }) => date !== null || changes.length > 0);
  const isRunning = (entry: ChangelogEntry): boolean => entry.version === version;
  return [...shown.filter(isRunning), ...shown.filter((entry) => !isRunning(entry))];
}
