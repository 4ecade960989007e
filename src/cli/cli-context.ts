import type { Command } from 'commander';
import { readClientConfig } from '../config.ts';
import { type Api, makeApi } from './api.ts';
import { readCredentials } from './credentials.ts';
import { UsageError } from './errors.ts';
import type { Io } from './io.ts';
import { printJson } from './print.ts';

/** Dependencies of every command that calls the service. */
export interface CliContext {
  io: Io;
  api: Api;
  /** `--json`: responses are printed on stdout as JSON, with every field. */
  json: boolean;
  /** Prints a response: as JSON with `--json`, else with `print`. */
  show<Body>(body: Body, print: (body: Body) => void): void;
}

export interface GlobalOptions {
  url?: string;
  token?: string;
  json?: boolean;
}

/** The token that `twinkeep login` saved for this service. */
function storedToken(file: string, url: string): string {
  const { [url]: saved } = readCredentials(file);
  if (saved === undefined) {
    throw new UsageError(
      `a token for ${url} is required: run twinkeep login, or set --token or TWINKEEP_TOKEN; ` +
        'on the host of the service `twinkeep token --sub me` creates one',
    );
  }
  if (Date.parse(saved.expires_at) > Date.now()) return saved.token;
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
    show(body, print) {
      if (json) printJson(io, body);
      else print(body);
    },
  };
}
