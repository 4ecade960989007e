import type { Command } from 'commander';
import { readClientConfig } from '../config.ts';
import { type Api, makeApi } from './api.ts';
import { readCredentials } from './credentials.ts';
import { UsageError } from './errors.ts';
import type { Io } from './io.ts';
import { printJson } from './print.ts';
import {
  type ReferenceKind,
  type ReferenceScope,
  resolveReference,
  resolveReferences,
  resolveRoom,
  withReferences,
} from './references.ts';

/** Dependencies of every command that calls the service. */
export interface CliContext {
  io: Io;
  api: Api;
  /** `--json`: responses are printed on stdout as JSON, with every field. */
  json: boolean;
  /** Prints a response: as JSON with `--json`, else with `print`. */
  show<Body>(body: Body, print: (body: Body) => void): void;
  /** The id that an argument means (`resolveReference`). */
  resolve(kind: ReferenceKind, text: string, scope?: ReferenceScope): Promise<string>;
  /** A room with its home (`resolveRoom`). */
  resolveRoom(text: string, homeId?: string): Promise<{ id: string; homeId: string }>;
  /** The ids that arguments mean, each once. */
  resolveAll(kind: ReferenceKind, texts: readonly string[], scope?: ReferenceScope): Promise<string[]>;
  /** The id of an option, if it is given. */
  resolveOption(kind: ReferenceKind, text: string | undefined, scope?: ReferenceScope): Promise<string | undefined>;
  /** Calls `use` with the id of a group or key (`withReferences`). */
  withReference<Result>(
    kind: 'group' | 'key',
    text: string,
    use: (id: string) => Promise<Result>,
    scope?: ReferenceScope,
  ): Promise<Result>;
  withReferences<Result>(
    kind: 'group' | 'key',
    texts: readonly string[],
    use: (ids: string[]) => Promise<Result>,
  ): Promise<Result>;
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

/** A client of the service, with the token of the options, the environment or `twinkeep login`. Throws `UsageError`. */
export function connectClient({ url, token }: GlobalOptions, signal?: AbortSignal): Api {
  const config = readClientConfig();
  const anonymous = makeApi(url ?? config.url, null);
  const credential = token ?? config.token ?? storedToken(config.credentialsFile, anonymous.url);
  return makeApi(anonymous.url, credential, signal);
}

export function createCliContext(io: Io, command: Command): CliContext {
  const { json = false, ...connection } = command.optsWithGlobals<GlobalOptions>();
  const api = connectClient(connection);
  return {
    io,
    api,
    json,
    resolve: (kind, text, scope) => resolveReference(api, kind, text, scope),
    resolveRoom: (text, homeId) => resolveRoom(api, text, homeId),
    resolveAll: (kind, texts, scope) => resolveReferences(api, kind, texts, scope),
    resolveOption: async (kind, text, scope) =>
      text === undefined ? undefined : resolveReference(api, kind, text, scope),
    withReference: (kind, text, use, scope) => withReferences(api, kind, [text], ([id]) => use(id as string), scope),
    withReferences: (kind, texts, use) => withReferences(api, kind, texts, use),
    show(body, print) {
      if (json) printJson(io, body);
      else print(body);
    },
  };
}
