import type { IncomingHttpHeaders } from 'node:http';
import { type Refusal, refuse } from '../../domain/refusals.ts';

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

export interface HostCheck {
  /**
   * Protects against DNS rebinding: `Host`, and `Origin` if present, must name this service. Null if the request is
   * allowed.
   */
  refusalFor(headers: IncomingHttpHeaders): Refusal | null;
}

/** `publicUrl` is how clients reach the service; `host` is the address that it listens on. */
export function makeHostCheck({ publicUrl, host }: { publicUrl(): string; host: string }): HostCheck {
  let cached: { url: string; hosts: ReadonlySet<string>; origins: ReadonlySet<string> } | null = null;

  function allowedNames() {
    const url = publicUrl();
    if (cached?.url === url) return cached;
    const configured = [hostnameOf(url), hostnameOf(`http://${host.includes(':') ? `[${host}]` : host}`)];
    const names = configured.filter((name) => name !== null && !WILDCARD_ADDRESSES.has(name)) as string[];
    const local = names.some((name) => LOOPBACK.has(name));
    cached = { url, hosts: new Set([...names, ...LOOPBACK]), origins: new Set([...names, ...(local ? LOOPBACK : [])]) };
    return cached;
  }

  return {
    refusalFor({ host, origin }) {
      const { hosts, origins } = allowedNames();
      if (host === undefined || !hosts.has(hostnameOf(`http://${host}`) ?? '')) {
        return refuse('FORBIDDEN', 'The Host header does not name this service.').refusal;
      }
      if (origin === undefined || origins.has(hostnameOf(origin) ?? '')) return null;
      return refuse('FORBIDDEN', 'The Origin header names another site.').refusal;
    },
  };
}

const WILDCARD_ADDRESSES: ReadonlySet<string> = new Set(['0.0.0.0', '[::]']);

function hostnameOf(url: string): string | null {
  const parsed = URL.parse(url);
  return parsed === null || parsed.hostname === '' ? null : parsed.hostname.replace(/\.$/, '');
}
