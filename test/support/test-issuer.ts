import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, SignJWT } from 'jose';
import type { Clock } from '../../src/domain/clock.ts';

export interface IssuerKey {
  kid: string;
  alg: string;
  private: CryptoKey;
  public: JWK;
}

/** A token issuer controlled by the test: discovery and keys over HTTP, tokens signed here. */
export interface TestIssuer {
  url: string;
  /** All keys; `keys[0]` signs. */
  keys: IssuerKey[];
  published: JWK[];
  /** Requests by path. */
  requestedPaths: string[];
  /** Handles requests instead of the issuer. */
  override: ((request: IncomingMessage, response: ServerResponse) => void) | null;
  /** A token with these claims; undefined claims are left out. */
  token(claims?: Record<string, unknown>, header?: Record<string, unknown>, key?: IssuerKey): Promise<string>;
  newKey(alg?: string, kid?: string): Promise<IssuerKey>;
  close(): Promise<void>;
  /** Listens again on the same port. */
  reopen(): Promise<void>;
}

let keys = 0;

/** An RSA key takes a hundred times as long. */
export async function newKey(alg = 'ES256', kid = `key-${++keys}`): Promise<IssuerKey> {
  const pair = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, private: pair.privateKey, public: { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' } };
}

export async function startTestIssuer(clock: Clock, audience = 'https://twinkeep.example'): Promise<TestIssuer> {
  const first = await newKey();
  const server = createServer((request, response) => {
    issuer.requestedPaths.push(request.url ?? '');
    if (issuer.override !== null) {
      issuer.override(request, response);
      return;
    }
    const documents: Record<string, unknown> = {
      '/.well-known/openid-configuration': { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` },
      '/keys': { keys: issuer.published },
    };
    const document = documents[request.url ?? ''];
    response.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(document ?? {}));
  });
  const listen = (port: number) => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const issuer: TestIssuer = {
    url: `http://127.0.0.1:${port}`,
    keys: [first],
    published: [first.public],
    requestedPaths: [],
    override: null,
    newKey,
    token(claims = {}, header = {}, key = issuer.keys[0] as IssuerKey) {
      const now = Math.floor(clock.now() / 1000);
      const all = { iss: issuer.url, aud: audience, sub: 'ada', iat: now, exp: now + 300, ...claims };
      return new SignJWT(all)
        .setProtectedHeader({ alg: key.alg, kid: key.kid, typ: 'at+jwt', ...header } as JWTHeaderParameters)
        .sign(key.private);
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
    reopen: () => listen(port),
  };
  return issuer;
}
