const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'full' });

/** Entries that are sorted by time, by the day in the user's time zone. */
export function timelineDays<Entry extends { at: string }>(
  entries: readonly Entry[],
): { day: string; entries: Entry[] }[] {
  const days: { day: string; entries: Entry[] }[] = [];
  for (const entry of entries) {
    const day = dayFormat.format(new Date(entry.at));
    const last = days.at(-1);
    if (last?.day === day) last.entries.push(entry);
    else days.push({ day, entries: [entry] });
  }
  return days;
}
