import type { Command } from 'commander';
import { readClientConfig } from '../config.ts';
import { type Api, makeApi } from './api.ts';
import { readCredentials } from './credentials.ts';
import { UsageError } from './errors.ts';
import type { Io } from './io.ts';

/** What every verb that calls the service has. */
export interface CliContext {
  io: Io;
  api: Api;
  /** The answers as they came, on stdout. */
  json: boolean;
  /** Prints the answer as JSON, or, for people, with `people`. */
  show<Body>(body: Body, people: (body: Body) => void): void;
}

export interface GlobalOptions {
  url?: string;
  token?: string;
  json?: boolean;
}

/** The token that `twinkeep login` kept for this service. */
function storedToken(file: string, url: string): string {
  const { [url]: kept } = readCredentials(file);
  if (kept === undefined) {
    throw new UsageError(
      `a token for ${url} is needed: run twinkeep login, or give --token or TWINKEEP_TOKEN; ` +
        '`twinkeep token --sub me` makes one beside the service',
    );
  }
  if (Date.parse(kept.expires_at) > Date.now()) return kept.token;
  throw new UsageError(`your sign-in to ${url} has expired: run twinkeep login`);
}

export function createCliContext(io: Io, command: Command): CliContext {
  const { url, token, json = false } = command.optsWithGlobals<GlobalOptions>();
  const config = readClientConfig();
  const anonymous = makeApi(url ?? config.url, null);
  const credential = token ?? config.token ?? storedToken(config.credentialsFile, anonymous.url);
  return {
    io,
    api: makeApi(anonymous.url, credential),
    json,
    show(body, people) {
      if (json) io.out(JSON.stringify(body));
      else people(body);
    },
  };
}
