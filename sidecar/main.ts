import { languageModelPlanner } from './language-model/planner.ts';
import { makeLog } from './log.ts';
import { rulesPlanner } from './rules/planner.ts';
import { serve } from './server.ts';
import { readSettings } from './settings.ts';

// The reference sidecar as a process of its own: started by the service as its child, or by anybody with these variables:
// SIDECAR_ADDRESS, LLM_BASE_URL, LLM_MODEL, LLM_API_KEY, LOG_LEVEL.

const HEARTBEAT_MS = 5_000;

async function main(): Promise<void> {
  const { listen, llm, logLevel } = readSettings(process.env);
  const log = makeLog(process.stdout, logLevel);
  const planner = llm === null ? rulesPlanner : languageModelPlanner(llm);
  const server = await serve(listen, { planner, log });
  const host = listen.slice(0, listen.lastIndexOf(':'));
  log.info({ address: `${host}:${server.port}`, planner: planner.name }, 'the sidecar listens');
  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    void server.close().then(() => process.exit(0));
  };
  process.on('SIGTERM', end);
  // A child of the service ends with it, however the service ended; a terminal's Ctrl-C is the service's to answer.
  if (process.send === undefined) process.on('SIGINT', end);
  else process.on('SIGINT', () => {});
  process.on('disconnect', end);
  process.stdout.on('error', () => {});
  process.send?.({ listening: `${host}:${server.port}` });
  // Whoever started it cannot see otherwise that it still does something.
  setInterval(() => process.connected && process.send?.({ alive: true }), HEARTBEAT_MS).unref();
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
