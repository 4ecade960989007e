import type { Command } from 'commander';
import { readClientConfig } from '../config.ts';
import { type Api, makeApi } from './api.ts';
import { Usage } from './failures.ts';
import type { Io } from './io.ts';

/** What every verb that calls the service has. */
export interface Client {
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

export function clientOf(io: Io, command: Command): Client {
  const { url, token, json = false } = command.optsWithGlobals<GlobalOptions>();
  const config = readClientConfig();
  const credential = token ?? config.token;
  if (credential === null) {
    throw new Usage('a token is needed: --token or TWINKEEP_TOKEN; `twinkeep token --sub me` makes one');
  }
  return {
    io,
    api: makeApi(url ?? config.url, credential),
    json,
    show(body, people) {
      if (json) io.out(JSON.stringify(body));
      else people(body);
    },
  };
}
