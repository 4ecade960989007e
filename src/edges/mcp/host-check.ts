import type { IncomingHttpHeaders } from 'node:http';
import { type Refusal, refuse } from '../../domain/refusals.ts';

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

export interface HostCheck {
  /**
   * Why a request is not taken, whoever sends it: a browser that was led here under another's name (DNS rebinding) says so in
   * `Host`, one that another site sends says so in `Origin`. Null where it is taken.
   */
  refusalFor(headers: IncomingHttpHeaders): Refusal | null;
}

/** `publicUrl` is how clients reach the service; `host` is the address that it listens on. */
export function makeHostCheck({ publicUrl, host }: { publicUrl(): string; host: string }): HostCheck {
  let known: { url: string; hosts: ReadonlySet<string>; origins: ReadonlySet<string> } | null = null;

  function names() {
    const url = publicUrl();
    if (known?.url === url) return known;
    const own = [hostnameOf(url), hostnameOf(`http://${host.includes(':') ? `[${host}]` : host}`)];
    const mine = own.filter((name) => name !== null && !WILDCARD_ADDRESSES.has(name)) as string[];
    const local = mine.some((name) => LOOPBACK.has(name));
    known = { url, hosts: new Set([...mine, ...LOOPBACK]), origins: new Set([...mine, ...(local ? LOOPBACK : [])]) };
    return known;
  }

  return {
    refusalFor({ host, origin }) {
      const { hosts, origins } = names();
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
