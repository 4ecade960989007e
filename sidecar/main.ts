import { receiveToken, TOKEN_ARGUMENT } from './access.ts';
import { languageModelPlanner } from './language-model/planner.ts';
import { makeLog } from './log.ts';
import { rulesPlanner } from './rules/planner.ts';
import { serve } from './server.ts';
import { readSettings } from './settings.ts';

// Entry point of the reference sidecar. The service starts it as a child process; it also runs on its own. Environment
// variables: SIDECAR_ADDRESS, SIDECAR_PORT (`preferred`: another port if it is taken), LLM_BASE_URL, LLM_MODEL, LLM_API_KEY, LOG_LEVEL. The service passes an argument, and then a
// token by the channel to its child process: unlike the environment, no other process can read the channel.

const HEARTBEAT_MS = 5_000;

async function main(): Promise<void> {
  const { listen, otherwiseFree, llm, logLevel } = readSettings(process.env);
  const log = makeLog(process.stdout, logLevel);
  const planner = llm === null ? rulesPlanner : languageModelPlanner(llm);
  const token = process.argv.includes(TOKEN_ARGUMENT) ? await receiveToken() : null;
  const server = await serve(listen, { planner, log, token, otherwiseFree });
  const host = listen.slice(0, listen.lastIndexOf(':'));
  log.info({ address: `${host}:${server.port}`, planner: planner.name }, 'sidecar listening');
  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    void server.close().then(() => process.exit(0));
  };
  process.on('SIGTERM', end);
  // A child process ends with the service (`disconnect`), also when the service crashed. It ignores Ctrl-C: the service
  // handles it.
  if (process.send === undefined) process.on('SIGINT', end);
  else process.on('SIGINT', () => {});
  process.on('disconnect', end);
  process.stdout.on('error', () => {});
  process.send?.({ listening: `${host}:${server.port}` });
  // Heartbeat for the parent process, which has no other sign that the event loop is alive.
  setInterval(() => process.connected && process.send?.({ alive: true }), HEARTBEAT_MS).unref();
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
