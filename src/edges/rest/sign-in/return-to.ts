/**
 * A path of our own to go back to, as it will be sent; null for anything that a browser could take for another place.
 */
export function parseReturnPath(text: string): string | null {
  // A backslash is a slash to a browser, and it leaves tabs and line ends out.
  if (!/^\/(?!\/)[\x21-\x7e]*$/.test(text) || text.includes('\\') || text.length > 2_048) return null;
  const url = URL.parse(text, 'http://own.invalid');
  if (url === null || url.host !== 'own.invalid' || url.pathname.startsWith('//')) return null;
  return url.pathname + url.search + url.hash;
}
