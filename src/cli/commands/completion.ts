import { Argument, type Command } from 'commander';
import { isUuid } from '../../domain/uuid.ts';
import type { Api } from '../api.ts';
import { connectClient, type GlobalOptions } from '../cli-context.ts';
import {
  completionOf,
  completionScripts,
  type LineCompletion,
  namesOf,
  type Suggestion,
  startingWith,
} from '../completion.ts';
import { fetchPropertyValues } from '../history-reading.ts';
import type { Io } from '../io.ts';
import { type CandidateLimits, fetchCandidates, matchesOf } from '../references.ts';
import { escapeForTerminal } from '../terminal-text.ts';
import { fetchManifest } from './manifests.ts';

type Shell = keyof typeof completionScripts;

/** For all requests of one completion. */
const NAMES_TIMEOUT_MS = 1_000;
/** 1,000 entries. */
const LIMITS: CandidateLimits = { maxPages: 5, retryWhenBusy: false };

export function addCompletion(program: Command, io: Io): void {
  program
    .command('completion')
    .summary('print a script that completes commands in a shell')
    .description(
      'Prints a script that completes verbs, options, the names of devices, homes, rooms and others, and the actions and\n' +
        'properties of a device in a shell.',
    )
    .addArgument(new Argument('<shell>').choices(Object.keys(completionScripts)))
    .addHelpText(
      'after',
      "\nExamples:\n  echo 'source <(twinkeep completion bash)' >> ~/.bashrc\n" +
        "  echo 'source <(twinkeep completion zsh)' >> ~/.zshrc\n" +
        '  twinkeep completion fish > ~/.config/fish/completions/twinkeep.fish\n\n' +
        'In .zshrc it follows compinit, if that is there. Names are requested from the service of TWINKEEP_URL or --url with your token;\n' +
        'without an answer within a second there are none.',
    )
    .action((shell: Shell) => io.writeOut(completionScripts[shell]));
  program
    .command('complete [argument...]', { hidden: true })
    .description('Prints the possible arguments at the end of a command line, for the script of a shell.')
    .action(async (words: string[], _options, command: Command) => {
      const completion = completionOf(program, words);
      const { current, prefix, suggestions, reference, ofDevice } = completion;
      const isKnown = reference === null && ofDevice === null;
      const names = isKnown ? [] : await fetchNames(completion, command.optsWithGlobals());
      for (const { value, description } of startingWith([...suggestions, ...names], current))
        io.stdout.write(`${escapeForTerminal(prefix + value)}\t${escapeForTerminal(description)}\n`);
    });
}

/** Empty without a token, or if the service refuses or does not answer in time: a completion prints no errors. */
async function fetchNames(
  { reference, ofDevice, current, connection }: LineCompletion,
  given: GlobalOptions,
): Promise<Suggestion[]> {
  try {
    const signal = AbortSignal.timeout(NAMES_TIMEOUT_MS);
    const api = connectClient({ ...given, ...connection }, signal);
    if (ofDevice !== null) return await fetchDeviceList(api, ofDevice);
    if (reference === null) return [];
    return namesOf(await fetchCandidates(api, reference, LIMITS), current);
  } catch {
    return [];
  }
}

async function fetchDeviceList(
  api: Api,
  { device, list }: NonNullable<LineCompletion['ofDevice']>,
): Promise<Suggestion[]> {
  const [found, ...others] = isUuid(device)
    ? [{ id: device }]
    : matchesOf(await fetchCandidates(api, 'device', LIMITS), device);
  if (found === undefined || others.length > 0) return [];
  if (list === 'action') {
    const { capabilities } = await fetchManifest(api, found.id);
    return capabilities.map(({ action, description }) => ({ value: action, description }));
  }
  const properties = await fetchPropertyValues(api, found.id);
  return properties.map(([value, now]) => ({ value, description: String(now) }));
}
