import type { Argument, Command, Option } from 'commander';
import { type Candidate, type ReferenceKind, referenceKinds } from './references.ts';

/** A text that can replace the argument at the cursor. */
export interface Suggestion {
  value: string;
  description: string;
}

/** What a device has; the names of arguments that follow it on the command line. */
const deviceLists = ['property', 'action'] as const;
export type DeviceList = (typeof deviceLists)[number];

/** The possible arguments at the cursor. */
export interface LineCompletion {
  /** The beginning of the argument, without quotes. */
  current: string;
  /** Precedes the value in the argument: `--home=`. */
  prefix: string;
  suggestions: Suggestion[];
  /** Names of this kind can be there too. */
  reference: ReferenceKind | null;
  /** The properties or actions of this device can be there too. */
  ofDevice: { device: string; list: DeviceList } | null;
  /** Options that select the service, from the arguments before. */
  connection: { url?: string; token?: string };
}

/**
 * The possible arguments at the end of `words`: the arguments after the program's name in the form of a shell. Bash keeps
 * quotes and divides at `=`. The last one is at the cursor and may be empty.
 */
export function completionOf(program: Command, words: readonly string[]): LineCompletion {
  const position = positionOf(program, words.slice(0, -1).map(unquote));
  const { command, operands, option, connection } = position;
  const word = unquote(words.at(-1) ?? '');
  const rest = { connection, prefix: '', reference: null, ofDevice: null };
  if (option !== null) return { ...rest, current: word === '=' ? '' : word, ...valuesOf(option) };
  if (!position.optionsEnded && word.startsWith('-')) {
    const [, flag = '', value = ''] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
    const given = optionOf(command, flag);
    if (given === null) return { ...rest, current: word, suggestions: optionsOf(command).map(suggestionOf) };
    return { ...rest, current: value, prefix: `${flag}=`, ...valuesOf(given) };
  }
  if (operands.length === 0 && command.commands.length > 0) {
    return { ...rest, current: word, suggestions: verbsOf(command) };
  }
  const all = command.registeredArguments;
  const argument = all[operands.length] ?? lastIfVariadic(all);
  if (argument === null) return { ...rest, current: word, suggestions: [] };
  const list = deviceLists.find((name) => name === argument.name());
  const device = all[operands.length - 1]?.name() === 'device' ? operands.at(-1) : undefined;
  const ofDevice = list === undefined || device === undefined ? null : { device, list };
  return { ...rest, current: word, ...valuesOf(argument), ofDevice };
}

interface Position {
  command: Command;
  /** The arguments before that are operands of the command. */
  operands: string[];
  /** The argument at the cursor is the value of this option. */
  option: Option | null;
  optionsEnded: boolean;
  connection: LineCompletion['connection'];
}

function positionOf(program: Command, words: readonly string[]): Position {
  const position: Position = { command: program, operands: [], option: null, optionsEnded: false, connection: {} };
  for (const word of words) {
    if (position.option !== null) {
      // Bash divides `--home=x` into three arguments.
      if (word === '=') continue;
      noteConnection(position, position.option, word);
      position.option = null;
    } else if (!position.optionsEnded && word === '--') {
      position.optionsEnded = true;
    } else if (!position.optionsEnded && word.length > 1 && word.startsWith('-')) {
      const [flag = '', value] = word.split(/=(.*)/s);
      const option = optionOf(position.command, flag);
      if (option?.required && value === undefined) position.option = option;
      else if (option !== null && value !== undefined) noteConnection(position, option, value);
    } else {
      const verb = position.operands.length === 0 ? verbNamed(position.command, word) : undefined;
      if (verb === undefined) position.operands.push(word);
      else position.command = verb;
    }
  }
  return position;
}

function noteConnection({ connection }: Position, option: Option, value: string): void {
  const name = option.attributeName();
  if (name === 'url' || name === 'token') connection[name] = value;
}

const verbNamed = (command: Command, name: string): Command | undefined =>
  command.commands.find((one) => one.name() === name || one.aliases().includes(name));

const lastIfVariadic = (all: readonly Argument[]): Argument | null =>
  all.at(-1)?.variadic ? (all.at(-1) ?? null) : null;

/** Also those of the commands above, and of the verb that is run without one. */
function optionsOf(command: Command): Option[] {
  const list = verbNamed(command, 'list');
  const isDefault = list !== undefined && list.registeredArguments.length === 0;
  const inherited: Option[] = [];
  for (let above = command.parent; above !== null; above = above.parent) inherited.push(...above.options);
  const own = command.createHelp().visibleOptions(command);
  const all = [...own, ...(isDefault ? list.options : []), ...inherited].filter(({ hidden }) => !hidden);
  return [...new Map(all.map((option) => [flagOf(option), option])).values()];
}

const flagOf = ({ long, short }: Option): string => long ?? short ?? '';

const optionOf = (command: Command, flag: string): Option | null =>
  optionsOf(command).find(({ long, short }) => flag === long || flag === short) ?? null;

const suggestionOf = (option: Option): Suggestion => ({ value: flagOf(option), description: option.description });

const verbsOf = (command: Command): Suggestion[] =>
  command
    .createHelp()
    .visibleCommands(command)
    .map((verb) => ({ value: verb.name(), description: verb.summary() || (verb.description().split('\n')[0] ?? '') }));

/** The choices of an option or argument, or the kind of the names that it takes: that of its placeholder, `<device>`. */
function valuesOf(taker: Option | Argument): Pick<LineCompletion, 'suggestions' | 'reference'> {
  const placeholder = 'flags' in taker ? /<([\w-]+)/.exec(taker.flags)?.[1] : taker.name();
  const reference = referenceKinds.find((kind) => kind === placeholder) ?? null;
  const suggestions = (taker.argChoices ?? []).map((value) => ({ value, description: '' }));
  return { suggestions, reference };
}

/** An argument without its quotes and backslashes. The one at the cursor may lack the closing quote. */
export function unquote(word: string): string {
  const quote = /^['"]/.exec(word)?.[0];
  if (quote === undefined) return word.replace(/\\(.)/gs, '$1');
  const inner = word.length > 1 && word.endsWith(quote) ? word.slice(1, -1) : word.slice(1);
  return quote === '"' ? inner.replace(/\\(["\\$`])/g, '$1') : inner;
}

/** Names of candidates, or ids where a name is missing or not unique, and ids that begin with `current`. */
export function namesOf(candidates: readonly Candidate[], current: string): Suggestion[] {
  const uses = new Map<string, number>();
  for (const name of candidates.flatMap(({ names }) => names)) uses.set(name, (uses.get(name) ?? 0) + 1);
  return candidates.map(({ id, names }) => {
    // A shell would insert a name that begins with a hyphen as an option.
    const name = names.find((one) => uses.get(one) === 1 && !one.startsWith('-'));
    if (name === undefined) return { value: id, description: names[0] ?? '' };
    return current !== '' && id.startsWith(current)
      ? { value: id, description: name }
      : { value: name, description: id };
  });
}

/** The suggestions that begin with `current`, in any case. */
export const startingWith = (suggestions: readonly Suggestion[], current: string): Suggestion[] =>
  suggestions.filter(({ value }) => value.toLowerCase().startsWith(current.toLowerCase()));

/** The array of zsh with the arguments of the command line (zshcompwid). */
const ZSH_ARGUMENTS = 'words';

/** The script of each shell calls `twinkeep complete`, which prints a suggestion a line: value, tab, description. */
export const completionScripts = {
  bash: `# Completion of twinkeep for bash.
_twinkeep() {
  local line value part joined= before= current="\${COMP_WORDS[COMP_CWORD]}"
  local -a parts=()
  # Bash divides arguments at \`:\` too.
  for part in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $part = : || $joined = : ]] && (( \${#parts[@]} )); then parts[-1]+="$part"; else parts+=("$part"); fi
    joined="$part"
  done
  case "$current" in
    [\\"\\']*) ;;
    *) before="\${parts[-1]%"\${parts[-1]##*:}"}" ;;
  esac
  COMPREPLY=()
  while IFS= read -r line; do
    value="\${line%%$'\\t'*}"
    # In an open quote readline inserts the text as it is.
    case "$current" in
      \\"*)
        [[ "$value" != *'!'* ]] || continue
        value="\${value//\\\\/\\\\\\\\}" value="\${value//\\"/\\\\\\"}" value="\${value//\\$/\\\\\\$}" value="\${value//\\\`/\\\\\\\`}"
        ;;
      \\'*) value="\${value//\\'/\\'\\\\\\'\\'}" ;;
      *) printf -v value '%q' "\${value#"$before"}" ;;
    esac
    COMPREPLY+=("$value")
  done < <(twinkeep complete -- "\${parts[@]}" 2>/dev/null)
}
complete -o default -F _twinkeep twinkeep
`,
  zsh: `#compdef twinkeep
# Completion of twinkeep for zsh.
_twinkeep() {
  local line value text
  local -a lines described
  lines=("\${(@f)$(twinkeep complete -- "\${(@Q)${ZSH_ARGUMENTS}[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    value="\${line%%$'\\t'*}"
    text="\${line#*$'\\t'}"
    described+=("\${value//:/\\\\:}\${text:+:$text}")
  done
  if (( \${#described} )); then
    _describe -V twinkeep described
  else
    _files
  fi
}
if [[ "\${funcstack[1]}" = _twinkeep ]]; then
  _twinkeep "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
  compdef _twinkeep twinkeep
fi
`,
  fish: `# Completion of twinkeep for fish.
function __twinkeep_complete
    set -l current (commandline -ct)
    set -l given (commandline -opc)
    set -l found (twinkeep complete -- $given[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c twinkeep -f -a '(__twinkeep_complete)'
`,
} as const;
