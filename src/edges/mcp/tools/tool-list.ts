import { callerRefusal } from '../../../operations/caller-authorization.ts';
import type { Caller } from '../../../operations/operation.ts';
import { commandTools } from './command-tools.ts';
import { historyTools } from './history-tools.ts';
import { planTools } from './plan-tools.ts';
import { discoveryTools, firmwareTools, observabilityTools, otherReadTools } from './read-tools.ts';
import { explainValueTool, getTimeline } from './timeline-tool.ts';
import type { McpTool } from './tool.ts';
import { managementTools, otherWriteTools, provisioningTools } from './write-tools.ts';

/** All tools, in the order of the specification's table. */
export const tools: readonly McpTool[] = [
  ...observabilityTools,
  getTimeline,
  ...historyTools,
  explainValueTool,
  ...discoveryTools,
  ...commandTools,
  ...provisioningTools,
  ...managementTools,
  ...firmwareTools,
  ...planTools,
  otherReadTools.getPlanStatus,
  otherReadTools.getStateVerification,
  otherWriteTools.writeAgentMemory,
  otherReadTools.getAgentMemories,
  otherReadTools.whoami,
];

const byName = new Map(tools.map((tool) => [tool.name, tool]));

export const findTool = (name: string): McpTool | undefined => byName.get(name);

/** The tools that the caller's role and scopes allow. */
export const toolsFor = (caller: Caller): McpTool[] =>
  tools.filter(({ operation, alsoPerforms = [] }) =>
    [operation, ...alsoPerforms].every((one) => callerRefusal(one, caller) === null),
  );
