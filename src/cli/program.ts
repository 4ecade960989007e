import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { clientSettingsTable, type Setting, settingsTable } from '../config/settings.ts';
import { addActors } from './commands/actors.ts';
import { addAdministration } from './commands/administration.ts';
import { addAudit } from './commands/audit.ts';
import { addChangeRequests } from './commands/change-requests.ts';
import { addCognition } from './commands/cognition.ts';
import { addCompletion } from './commands/completion.ts';
import { addConfirmations } from './commands/confirmations.ts';
import { addDemo } from './commands/demo.ts';
import { addDeviceCas } from './commands/device-cas.ts';
import { addDeviceCommands } from './commands/device-commands.ts';
import { addDevices } from './commands/devices.ts';
import { addFirmware } from './commands/firmware.ts';
import { addGroups } from './commands/groups.ts';
import { addHistory } from './commands/history.ts';
import { addHomes, addTenant } from './commands/homes.ts';
import { addIntents } from './commands/intents.ts';
import { addKeys } from './commands/keys.ts';
import { addLogin } from './commands/login.ts';
import { addManifests } from './commands/manifests.ts';
import { addMembers } from './commands/members.ts';
import { addMemories } from './commands/memories.ts';
import { addPlans } from './commands/plans.ts';
import { addPolicy } from './commands/policy.ts';
import { addRekey } from './commands/rekey.ts';
import { addRooms } from './commands/rooms.ts';
import { addServe } from './commands/serve.ts';
import { addSessions } from './commands/sessions.ts';
import { addSimulate } from './commands/simulate.ts';
import { addStatus } from './commands/status.ts';
import { addTimeline } from './commands/timeline.ts';
import { addToken } from './commands/token.ts';
import { addWatch } from './commands/watch.ts';
import { addWhy } from './commands/why.ts';
import type { Display, Io } from './io.ts';
import { refuseUnknownVerbs } from './unknown-verbs.ts';

/** Creates the command line. Actions throw errors; run.ts maps them to exit codes. */
export function makeProgram(io: Io): Command {
  const program = new Command('twinkeep')
    .description('A cloud for connected devices: the service and its command-line client.')
    .version(packageVersion(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .option('--url <url>', 'the service to call (TWINKEEP_URL, else http://127.0.0.1:8080)')
    .option('--token <token>', 'the token to call it with (TWINKEEP_TOKEN)')
    .option('--json', 'print answers as JSON')
    .option('--wide', 'on a terminal, do not shorten tables to its width')
    .option('--utc', 'on a terminal, print times in UTC instead of the local time zone')
    .configureHelp({
      showGlobalOptions: true,
      commandDescription: (command) => joinLines(command.description()),
      subcommandDescription: (command) => joinLines(command.summary() || command.description()),
    })
    .configureOutput({ writeOut: io.writeOut, writeErr: io.writeErr })
    .helpCommand(false)
    .exitOverride()
    .showHelpAfterError('(see --help)');
  program.commandsGroup('The service:');
  addServe(program, io);
  addDemo(program, io);
  addToken(program, io);
  program.commandsGroup('Client:');
  addLogin(program, io);
  addStatus(program, io);
  addTenant(program, io);
  addDeviceCas(program, io);
  addHomes(program, io);
  addRooms(program, io);
  addDevices(program, io);
  addGroups(program, io);
  addManifests(program, io);
  addDeviceCommands(program, io);
  addConfirmations(program, io);
  addChangeRequests(program, io);
  addPlans(program, io);
  addIntents(program, io);
  addCognition(program, io);
  addPolicy(program, io);
  addTimeline(program, io);
  addHistory(program, io);
  addWhy(program, io);
  addWatch(program, io);
  addKeys(program, io);
  addMembers(program, io);
  addSessions(program, io);
  addMemories(program, io);
  addFirmware(program, io);
  addActors(program, io);
  addAudit(program, io);
  addSimulate(program, io);
  addCompletion(program, io);
  program.commandsGroup('For platform operators:');
  addAdministration(program, io);
  addRekey(program, io);
  refuseUnknownVerbs(program);
  program.hook('preAction', (_, command) => {
    const { wide = false, utc = false } = command.optsWithGlobals<Partial<Display>>();
    io.display = { wide, utc };
  });
  program.addHelpText('after', () => helpFooter());
  return program;
}

/** Descriptions are paragraphs: Commander wraps them to the width of the terminal. */
const joinLines = (text: string): string => text.replaceAll('\n', ' ');

const EXAMPLES = `
Examples:
  twinkeep demo                                    run a demo home with five devices
  twinkeep serve                                   run the service on 127.0.0.1:8080
  twinkeep login                                   sign in with a browser, or on the host of the service:
  export TWINKEEP_TOKEN=$(twinkeep token --sub me)
  twinkeep register-tenant "My company"
  twinkeep simulate --devices 20
  twinkeep watch

Exit codes: 0 success, 1 refused or failed, 2 invalid arguments or settings, 3 service unreachable.
`;

const helpFooter = (): string =>
  `${EXAMPLES}
Settings of the service (environment variables of serve and token):
${formatSettings(settingsTable)}

Settings of the other commands:
${formatSettings(clientSettingsTable)}`;

function formatSettings(settings: readonly Setting[]): string {
  const width = Math.max(...settings.map(({ name }) => name.length));
  return settings.map(({ name, fallback, meaning }) => `  ${name.padEnd(width)}  ${meaning} [${fallback}]`).join('\n');
}

function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
