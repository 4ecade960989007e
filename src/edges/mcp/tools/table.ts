import type { Caller } from '../../../operations/operation.ts';
import { mayCall } from '../../../operations/perform.ts';
import { changing, management, provisioning } from './changing.ts';
import { commanding } from './commanding.ts';
import { discovery, firmware, looking, observability } from './looking.ts';
import { planning } from './planning.ts';
import type { Tool } from './tool.ts';

/** All tools, in the order of the specification's table. */
export const tools: readonly Tool[] = [
  ...observability,
  ...discovery,
  ...commanding,
  ...provisioning,
  ...management,
  ...firmware,
  ...planning,
  looking.getPlanStatus,
  looking.getStateVerification,
  changing.writeAgentMemory,
  looking.getAgentMemories,
  looking.whoami,
];

const byName = new Map(tools.map((tool) => [tool.name, tool]));

export const toolNamed = (name: string): Tool | undefined => byName.get(name);

/** Those that the caller's role and scopes allow. */
export const toolsFor = (caller: Caller): Tool[] =>
  tools.filter(({ operation }) => mayCall(operation, caller) === null);
