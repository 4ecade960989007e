import { z } from 'zod';
import { isPerson } from '../domain/policy.ts';
import type { Principal } from '../domain/values.ts';
import type { Services } from './operation.ts';

// The credential of a request that waits for a confirmation: the user alone does not show that a program acted for them.

export const requesterKinds = ['person', 'api_key', 'mcp', 'program'] as const;

export const requestedWith = z
  .object({
    kind: z.enum(requesterKinds).meta({
      description:
        '`person`: the user in person; `api_key`: an API key of the user; `mcp`: a token of the user at `/mcp`; ' +
        '`program`: another token of the user that counts as no person’s',
    }),
    prefix: z.string().optional().meta({ description: 'Of the API key' }),
    name: z.string().optional().meta({ description: 'Of the API key, unless it was deleted' }),
  })
  .meta({ id: 'RequestedWith', description: 'The credential of the requester' });
export type RequestedWith = z.infer<typeof requestedWith>;

/** The names of the API keys that these principals used, by prefix. */
export async function keyNames(
  { store }: Pick<Services, 'store'>,
  principals: readonly Principal[],
): Promise<ReadonlyMap<string, string>> {
  const prefixes = [...new Set(principals.flatMap(({ key }) => key ?? []))];
  const found = await Promise.all(prefixes.map((prefix) => store.keys.find(prefix)));
  return new Map(found.flatMap((key) => (key === null ? [] : [[key.prefix, key.name] as const])));
}

export function requestedWithOf(principal: Principal, names: ReadonlyMap<string, string>): RequestedWith {
  const { key, via } = principal;
  if (key !== undefined) {
    const name = names.get(key);
    return { kind: 'api_key', prefix: key, ...(name !== undefined && { name }) };
  }
  if (via === 'mcp') return { kind: 'mcp' };
  return { kind: isPerson(principal) ? 'person' : 'program' };
}
