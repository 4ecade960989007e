/**
 * Parses a path of this service to return to, in normalised form; null for anything that a browser could resolve to another
 * origin.
 */
export function parseReturnPath(text: string): string | null {
  // Browsers treat a backslash as a slash, and ignore tabs and line breaks.
  if (!/^\/(?!\/)[\x21-\x7e]*$/.test(text) || text.includes('\\') || text.length > 2_048) return null;
  const url = URL.parse(text, 'http://own.invalid');
  if (url === null || url.host !== 'own.invalid' || url.pathname.startsWith('//')) return null;
  return url.pathname + url.search + url.hash;
}
