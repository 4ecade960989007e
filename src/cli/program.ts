import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { clientSettingsTable, type Setting, settingsTable } from '../config/settings.ts';
import type { Io } from './io.ts';
import { addActors } from './verbs/actors.ts';
import { addAdministration } from './verbs/administration.ts';
import { addAudit } from './verbs/audit.ts';
import { addCognition } from './verbs/cognition.ts';
import { addCommands } from './verbs/commands.ts';
import { addConfirmations } from './verbs/confirmations.ts';
import { addDemo } from './verbs/demo.ts';
import { addDevices } from './verbs/devices.ts';
import { addFirmware } from './verbs/firmware.ts';
import { addHomes, addTenant } from './verbs/homes.ts';
import { addKeys } from './verbs/keys.ts';
import { addLogin } from './verbs/login.ts';
import { addMembers } from './verbs/members.ts';
import { addMemories } from './verbs/memories.ts';
import { addPlans } from './verbs/plans.ts';
import { addPolicy } from './verbs/policy.ts';
import { addServe } from './verbs/serve.ts';
import { addSimulate } from './verbs/simulate.ts';
import { addToken } from './verbs/token.ts';
import { addWatch } from './verbs/watch.ts';

/** The command line. Actions throw; run.ts has the exit codes. */
export function makeProgram(io: Io): Command {
  const program = new Command('twinkeep')
    .description('A cloud for connected devices: the service, and what works with it.')
    .version(version(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .option('--url <url>', 'the service to call (TWINKEEP_URL, else http://127.0.0.1:8080)')
    .option('--token <token>', 'the token to call it with (TWINKEEP_TOKEN)')
    .option('--json', 'print answers as JSON')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: (text) => io.stdout.write(text), writeErr: (text) => io.stderr.write(text) })
    .helpCommand(false)
    .exitOverride()
    .showHelpAfterError('(--help tells more)');
  program.commandsGroup('The service:');
  addServe(program, io);
  addDemo(program, io);
  addToken(program, io);
  program.commandsGroup('Working with it:');
  addLogin(program, io);
  addTenant(program, io);
  addHomes(program, io);
  addDevices(program, io);
  addCommands(program, io);
  addConfirmations(program, io);
  addPlans(program, io);
  addCognition(program, io);
  addPolicy(program, io);
  addWatch(program, io);
  addKeys(program, io);
  addMembers(program, io);
  addMemories(program, io);
  addFirmware(program, io);
  addActors(program, io);
  addAudit(program, io);
  addSimulate(program, io);
  program.commandsGroup('For platform operators:');
  addAdministration(program, io);
  program.addHelpText('after', () => more());
  return program;
}

const EXAMPLES = `
Examples:
  twinkeep demo                                    a home with five devices, to play with
  twinkeep serve                                   the service on 127.0.0.1:8080
  twinkeep login                                   with a browser; or, beside the service,
  export TWINKEEP_TOKEN=$(twinkeep token --sub me)
  twinkeep register-tenant "My company"
  twinkeep simulate --devices 20
  twinkeep watch

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or setting, 3 the service cannot be reached.
`;

const more = (): string =>
  `${EXAMPLES}
Settings of the service (environment variables of serve and token):
${listed(settingsTable)}

Settings of the other verbs:
${listed(clientSettingsTable)}`;

function listed(settings: readonly Setting[]): string {
  const width = Math.max(...settings.map(({ name }) => name.length));
  return settings.map(({ name, fallback, meaning }) => `  ${name.padEnd(width)}  ${meaning} [${fallback}]`).join('\n');
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
