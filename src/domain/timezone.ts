const NAME = /^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+)*$/;
const canonical = new Map(Intl.supportedValuesOf('timeZone').map((name) => [name.toLowerCase(), name]));
// ICU also accepts three-letter names ("PST", "ACT") and old prefixes that are not IANA zones; these short names are.
const SHORT_IANA = new Set([
  'UTC',
  'GMT',
  'EST',
  'MST',
  'HST',
  'CET',
  'MET',
  'EET',
  'WET',
  'PRC',
  'ROC',
  'ROK',
  'UCT',
  'GB',
  'NZ',
]);

/** Whether `name` is an IANA time zone in IANA's spelling. Offsets such as `+01:00` are not. */
export function isTimezone(name: string): boolean {
  if (name.length > 64 || !NAME.test(name) || name.startsWith('SystemV/')) return false;
  const known = canonical.get(name.toLowerCase());
  if (known !== undefined) return known === name;
  if (name.length <= 3 && !SHORT_IANA.has(name)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true; // an alias, such as Asia/Kolkata
  } catch {
    return false;
  }
}
