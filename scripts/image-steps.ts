/** An instruction of a Dockerfile, with its arguments as one text. */
export interface ImageStep {
  instruction: 'FROM' | 'WORKDIR' | 'COPY' | 'RUN' | 'ENV' | 'USER' | 'VOLUME' | 'EXPOSE' | 'CMD';
  text: string;
}

/** One stage of a build; its name is empty if the Dockerfile gives none. */
export interface ImageStage {
  name: string;
  steps: ImageStep[];
}

const instructions = new Set<string>([...['FROM', 'WORKDIR', 'COPY', 'RUN', 'ENV', 'USER', 'VOLUME', 'EXPOSE', 'CMD']]);

/** The stages of a Dockerfile. Throws for an instruction other than those of `ImageStep`, whose effect is not known. */
export function imageStages(dockerfile: string): ImageStage[] {
  const stages: ImageStage[] = [];
  const lines = dockerfile.replaceAll(/^\s*#.*\n/gm, '').replaceAll(/\s*\\\n\s*/g, ' ');
  for (const line of lines.split('\n').filter((one) => one.trim() !== '')) {
    const [instruction = '', text = ''] = line.split(/\s+(.*)/s);
    if (!instructions.has(instruction)) throw new Error(`unknown instruction: ${line}`);
    if (instruction === 'FROM') stages.push({ name: / AS (\S+)$/i.exec(text)?.[1] ?? '', steps: [] });
    else if (stages.length === 0) throw new Error(`an instruction before FROM: ${line}`);
    else stages.at(-1)?.steps.push({ instruction: instruction as ImageStep['instruction'], text: text.trim() });
  }
  return stages;
}

/** The variables that an `ENV` instruction of the form `NAME=value …` sets; no value contains a blank. */
export const environmentOf = (text: string): Record<string, string> =>
  Object.fromEntries(text.split(/\s+/).map((pair) => pair.split(/=(.*)/s).slice(0, 2)));

/** The sources and the target of a `COPY` instruction: from a stage, or from the folder of the Dockerfile if `from` is null. */
export function copyOf(text: string): { from: string | null; sources: string[]; target: string } {
  const words = text.split(/\s+/);
  const flags = words.filter((word) => word.startsWith('--'));
  const [from = null] = flags.map((flag) => /^--from=(.+)$/.exec(flag)?.[1]);
  if (flags.length > 0 && from === null) throw new Error(`unknown flags of COPY: ${flags.join(' ')}`);
  const paths = words.slice(flags.length);
  return { from, sources: paths.slice(0, -1), target: paths.at(-1) ?? '' };
}
