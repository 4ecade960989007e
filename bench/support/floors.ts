import { type Child, startChild } from './child.ts';
import { type Deployment, V8_FLAGS } from './service.ts';

/** A floor in a separate process. */
export interface FloorProcess {
  child: Child;
  port: number;
}

/** How the HTTP floor checks tokens; see `express-floor.ts`. */
export type TokenVerification = 'cached' | 'verified each time';
export const TOKEN_VERIFICATIONS: readonly TokenVerification[] = ['cached', 'verified each time'];
export const floorName = (verification: TokenVerification): string => `express + jose + zod, tokens ${verification}`;

/** The HTTP floors, which accept the deployment's tokens. */
export async function startHttpFloors(deployment: Deployment): Promise<Record<TokenVerification, FloorProcess>> {
  const { x, crv, kty } = JSON.parse(deployment.env.TOKEN_SIGNING_KEY as string);
  const start = (verification: TokenVerification): Promise<FloorProcess> =>
    startFloor(new URL('./express-floor.ts', import.meta.url), {
      env: { PUBLIC_JWK: JSON.stringify({ x, crv, kty }), PROOFS: verification },
    });
  return { cached: await start('cached'), 'verified each time': await start('verified each time') };
}

/** As its users start it: without the service's V8 flags. */
export const startNodeRed = (): Promise<FloorProcess> =>
  startFloor(new URL('./node-red-floor.ts', import.meta.url), { env: { NODE_ENV: '' }, node: [] });

/** By default with the service's V8 flags. */
export async function startFloor(
  file: URL,
  {
    args = [],
    env = {},
    node = V8_FLAGS,
  }: { args?: string[]; env?: Record<string, string>; node?: readonly string[] } = {},
): Promise<FloorProcess> {
  const child = startChild(file, { args, node: [...node], env: { NODE_ENV: 'production', ...env } });
  return { child, port: await child.receive<number>('port') };
}
