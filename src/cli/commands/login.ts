import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { Command } from 'commander';
import { readClientConfig } from '../../config.ts';
import { type Api, makeApi, pause } from '../api.ts';
import type { GlobalOptions } from '../cli-context.ts';
import { readCredentials, type SavedCredential, saveCredential } from '../credentials.ts';
import { FailedError, RefusedError, UnreachableError } from '../errors.ts';
import type { Io } from '../io.ts';
import { printJson } from '../print.ts';
import { formatTime } from '../time-text.ts';

/** Contract §3. */
const POLL_MS = 2_000;
/** Time to open the page, and again from then on to approve. */
const APPROVAL_TIMEOUT_MS = 600_000;

interface HandshakeStatus {
  status: 'pending' | 'approved';
  access_token?: string;
  expires_in?: number;
}

interface Me {
  user: { ext_id: string; email: string | null };
}

export function addLogin(program: Command, io: Io): void {
  program
    .command('login')
    .summary('sign in with a browser')
    .description(
      'Prints a link and a code of 6 characters. Open the link in a browser on any computer, sign in, and type the code.\n' +
        'The token is valid for an hour, stored in a file that only you can read, and used by the other commands.',
    )
    .option('--open', 'open the link in the default browser')
    .action(async ({ open }: { open?: boolean }, command: Command) => {
      const { api, credentialsFile, json } = resolveService(command);
      readCredentials(credentialsFile); // fails on an unusable file before the user signs in
      const code = randomCode();
      const verifier = randomCode();
      const link = signInLink(api, code, verifier);
      const { bold } = io.errColors;
      const instructions = [`Open this link in a browser:`, '', `  ${link}`, ''];
      for (const line of [...instructions, `and enter this code there: ${bold(userCode(code))}`, '']) io.err(line);
      if (open) openBrowser(link);
      const { access_token: token = '', expires_in = 0 } = await waitForApproval(api, code, verifier);
      const me = await makeApi(api.url, token).get<Me>('/v1/auth/me');
      const credential: SavedCredential = {
        token,
        expires_at: new Date(Date.now() + expires_in * 1000).toISOString(),
        user: me.user.email ?? me.user.ext_id,
      };
      saveCredential(credentialsFile, api.url, credential);
      const { user, expires_at } = credential;
      if (json) printJson(io, { url: api.url, user, expires_at });
      else io.out(`Signed in to ${api.url} as ${user}, until ${formatTime(io, expires_at)}.`);
    });

  program
    .command('logout')
    .summary('sign out')
    .description('Revokes the token that `twinkeep login` stored for the service, and deletes it.')
    .action(async (_options, command: Command) => {
      const { api, credentialsFile, json } = resolveService(command);
      const { [api.url]: stored } = readCredentials(credentialsFile);
      if (stored !== undefined) {
        saveCredential(credentialsFile, api.url, null);
        await revoke(api.url, stored);
      }
      if (json) printJson(io, { url: api.url, signed_in: stored !== undefined });
      else io.out(stored === undefined ? `You were not signed in to ${api.url}.` : `Signed out of ${api.url}.`);
    });
}

function resolveService(command: Command): { api: Api; credentialsFile: string; json: boolean } {
  const { url, json = false } = command.optsWithGlobals<GlobalOptions>();
  const config = readClientConfig();
  return { api: makeApi(url ?? config.url, null), credentialsFile: config.credentialsFile, json };
}

const randomCode = (): string => randomBytes(32).toString('base64url');
const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest();

function signInLink({ url }: Api, code: string, verifier: string): string {
  const host = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.exec(hostname())?.[0];
  const challenge = sha256(verifier).toString('base64url');
  const query = new URLSearchParams({ code, challenge, ...(host !== undefined && { host }) });
  return `${url}/v1/auth/cli?${query}`;
}

/** The first 6 characters of base32(SHA-256(code)); 5 bits each. */
export function userCode(code: string): string {
  const bits = sha256(code).readUInt32BE(0);
  return [27, 22, 17, 12, 7, 2].map((at) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[(bits >>> at) & 31]).join('');
}

/**
 * Polls until the user has approved the sign-in. Tolerates a service that is briefly unreachable after its first
 * response.
 */
export async function waitForApproval(api: Api, code: string, verifier: string): Promise<HandshakeStatus> {
  const headers = { 'x-handshake-verifier': verifier };
  let deadline = Date.now() + APPROVAL_TIMEOUT_MS;
  let answered = false;
  let opened = false;
  while (Date.now() < deadline) {
    try {
      const { status, body } = await api.request<HandshakeStatus>('GET', `/v1/auth/handshake/${code}`, {
        headers,
        acceptStatuses: [404, 429, 503],
      });
      answered = true;
      if (status === 200 && body.status === 'approved') return body;
      if (status === 200 && !opened) {
        opened = true;
        // A margin of one poll, so that the service reports the expiry itself.
        deadline = Date.now() + APPROVAL_TIMEOUT_MS + POLL_MS;
      }
    } catch (error) {
      if (error instanceof RefusedError && error.problem.code === 'GONE') break;
      if (!(error instanceof UnreachableError && answered)) throw error;
    }
    await pause(POLL_MS);
  }
  throw new FailedError('the sign-in was not approved in time or was cancelled; run twinkeep login again');
}

async function revoke(url: string, { token, expires_at }: SavedCredential): Promise<void> {
  try {
    await makeApi(url, token).post('/v1/auth/logout');
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error;
    throw new UnreachableError(`${error.message}. The token was deleted here but remains valid until ${expires_at}.`);
  }
}

/**
 * Spawned without a shell, so the link cannot inject a command. A missing browser is ignored: the link is printed
 * anyway.
 */
function openBrowser(link: string): void {
  const [program, args] =
    process.platform === 'darwin'
      ? ['open', [link]]
      : process.platform === 'win32'
        ? ['rundll32', ['url.dll,FileProtocolHandler', link]]
        : ['xdg-open', [link]];
  const child = spawn(program as string, args as string[], { stdio: 'ignore', detached: true });
  child.on('error', () => {});
  child.unref();
}
