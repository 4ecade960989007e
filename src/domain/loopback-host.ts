/** Whether the host of a URL, as `URL.hostname` gives it, is this machine (RFC 6761 §6.3, RFC 8252 §8.3). */
export const isLoopbackHost = (host: string): boolean =>
  /^(?:.+\.)?localhost\.?$/i.test(host) || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
