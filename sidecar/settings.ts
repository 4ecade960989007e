import type { Level } from './log.ts';

/** All settings of the sidecar. */
export interface SidecarSettings {
  /** `host:port` to listen on; port 0 takes a free one. */
  listen: string;
  /** Takes a free port of the same host if `listen` is taken. */
  otherwiseFree: boolean;
  llm: { baseUrl: string; model: string; apiKey: string | null } | null;
  logLevel: Level;
}

/** The only reader of the environment. Error messages name the variable, never its value. */
export function readSettings(env: Readonly<Record<string, string | undefined>>): SidecarSettings {
  const read = (name: string): string | null => env[name]?.trim() || null;
  const listen = read('SIDECAR_ADDRESS') ?? '127.0.0.1:50051';
  if (!/^(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):\d{1,5}$/.test(listen)) {
    throw new Error('SIDECAR_ADDRESS must be host:port');
  }
  const baseUrl = read('LLM_BASE_URL');
  const model = read('LLM_MODEL');
  if (baseUrl !== null && !/^https?:$/.test(URL.parse(baseUrl)?.protocol ?? '')) {
    throw new Error('LLM_BASE_URL must be a URL that begins with http:// or https://');
  }
  if (baseUrl !== null && model === null) throw new Error('LLM_MODEL is required with LLM_BASE_URL');
  const level = read('LOG_LEVEL');
  return {
    listen,
    otherwiseFree: read('SIDECAR_PORT') === 'preferred',
    llm:
      baseUrl === null || model === null
        ? null
        : { baseUrl: baseUrl.replace(/\/+$/, ''), model, apiKey: read('LLM_API_KEY') },
    logLevel: level === 'debug' || level === 'warn' || level === 'error' ? level : 'info',
  };
}
