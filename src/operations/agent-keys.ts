import type { Principal } from '../domain/values.ts';
import { keyEntry } from '../services/agent-tokens.ts';
import type { Services } from './operation.ts';

/** Whether one of the principals used an API key that was presented at `/mcp`: an agent's, on every protocol. */
export async function usesAgentKey(
  { agentTokens }: Pick<Services, 'agentTokens'>,
  principals: readonly Principal[],
): Promise<boolean> {
  for (const { id, key } of principals)
    if (key !== undefined && (await agentTokens.has(id, keyEntry(key)))) return true;
  return false;
}
