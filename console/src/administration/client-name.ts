import Bowser from 'bowser';

/** The browser and the system of a `User-Agent`, such as `Firefox 130 on Windows`; other programs as they name themselves. */
export function clientName(userAgent: string): string {
  // Bowser refuses it.
  if (userAgent === '') return '';
  const { browser, os } = Bowser.parse(userAgent);
  if (!browser.name) return userAgent;
  const [version] = (browser.version ?? '').split('.');
  const program = [browser.name, version].filter(Boolean).join(' ');
  return os.name ? `${program} on ${os.name}` : program;
}
